"""An index over what ended in a run, in the order in which it did."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        op.f("ix_gradings_tenant_run_done_at_id"),
        "gradings",
        ["tenant", "run", "done_at", "id"],
    )
