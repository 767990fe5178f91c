"""Trials, gradings, verdicts, rubrics and workers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "rubrics",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("id", sa.String(length=200), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_rubrics")),
    )
    op.create_table(
        "workers",
        sa.Column("node", sa.String(length=200), nullable=False),
        sa.Column("boot_id", sa.String(length=36), nullable=False),
        sa.Column("judges", sa.JSON(), nullable=False),
        sa.Column("in_flight", sa.Integer(), nullable=False),
        sa.Column("last_tick", sa.Float(), nullable=False),
        sa.Column("last_progress", sa.Float(), nullable=False),
        sa.Column("trouble", sa.Text(), nullable=True),
        sa.Column("paused", sa.JSON(), nullable=True),
        sa.PrimaryKeyConstraint("node", name=op.f("pk_workers")),
    )
    op.create_table(
        "probe",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_probe")),
    )
    op.execute("INSERT INTO probe (id, at) VALUES (1, 0)")
    op.create_table(
        "trials",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("tenant", sa.String(length=200), nullable=False),
        sa.Column("run", sa.String(length=200), nullable=False),
        sa.Column("client_id", sa.String(length=200), nullable=True),
        sa.Column("content_digest", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("scene_id", sa.String(length=200), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("instruction", sa.Text(), nullable=True),
        sa.Column("instruction_from", sa.String(length=16), nullable=False),
        sa.Column("rubric_digest", sa.String(length=64), nullable=False),
        sa.Column("record_digest", sa.String(length=64), nullable=False),
        sa.Column("columns", sa.JSON(), nullable=False),
        sa.Column("frames", sa.JSON(), nullable=False),
        sa.Column("needs_review", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=True),
        sa.Column("verdict", sa.String(length=16), nullable=True),
        sa.Column("reason", sa.String(length=32), nullable=True),
        sa.Column("source", sa.String(length=32), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("failure_mode", sa.String(length=100), nullable=True),
        sa.ForeignKeyConstraint(
            ["rubric_digest"], ["rubrics.digest"], name=op.f("fk_trials_rubric_digest")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trials")),
        sa.UniqueConstraint("tenant", "client_id", name=op.f("uq_trials_tenant_client_id")),
    )
    with op.batch_alter_table("trials", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_trials_tenant_run_id"), ["tenant", "run", "id"], unique=False
        )
        batch_op.create_index(
            batch_op.f("ix_trials_tenant_run_outcome_verdict_reason_source_failure_mode"),
            ["tenant", "run", "outcome", "verdict", "reason", "source", "failure_mode"],
            unique=False,
        )

    op.create_table(
        "gradings",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("trial_id", sa.String(length=36), nullable=False),
        sa.Column("tenant", sa.String(length=200), nullable=False),
        sa.Column("run", sa.String(length=200), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("rubric_digest", sa.String(length=64), nullable=False),
        sa.Column("judge", sa.String(length=200), nullable=False),
        sa.Column("judge_digest", sa.String(length=64), nullable=False),
        sa.Column("fresh", sa.Boolean(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=True),
        sa.Column("verdict", sa.String(length=16), nullable=True),
        sa.Column("reason", sa.String(length=32), nullable=True),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("lost_leases", sa.Integer(), nullable=False),
        sa.Column("lease_token", sa.String(length=36), nullable=True),
        sa.Column("lease_until", sa.Float(), nullable=False),
        sa.Column("owner", sa.String(length=200), nullable=True),
        sa.Column("not_before", sa.Float(), nullable=False),
        sa.Column("published_at", sa.Float(), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("last_error_at", sa.Float(), nullable=True),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("done_at", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name=op.f("fk_gradings_trial_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gradings")),
        sa.UniqueConstraint(
            "trial_id",
            "rubric_digest",
            "judge_digest",
            "round",
            name=op.f("uq_gradings_trial_id_rubric_digest_judge_digest_round"),
        ),
    )
    with op.batch_alter_table("gradings", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_gradings_state_judge_priority_tenant_run_not_before_id"),
            ["state", "judge", "priority", "tenant", "run", "not_before", "id"],
            unique=False,
        )
        batch_op.create_index(
            batch_op.f("ix_gradings_state_lease_until"), ["state", "lease_until"], unique=False
        )
        batch_op.create_index(
            batch_op.f("ix_gradings_tenant_run_state_judge"),
            ["tenant", "run", "state", "judge"],
            unique=False,
        )
        batch_op.create_index(
            batch_op.f("ix_gradings_reason_judge"), ["reason", "judge"], unique=False
        )

    op.create_table(
        "verdicts",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("trial_id", sa.String(length=36), nullable=False),
        sa.Column("tenant", sa.String(length=200), nullable=False),
        sa.Column("run", sa.String(length=200), nullable=False),
        sa.Column("grading_id", sa.String(length=36), nullable=True),
        sa.Column("source", sa.String(length=32), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("verdict", sa.String(length=16), nullable=True),
        sa.Column("reason", sa.String(length=32), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("by", sa.String(length=200), nullable=True),
        sa.Column("primary", sa.Boolean(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("answers", sa.Integer(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=True),
        sa.Column("output_tokens", sa.BigInteger(), nullable=True),
        sa.Column("nano_usd", sa.BigInteger(), nullable=True),
        sa.Column("receipt", sa.JSON(), nullable=True),
        sa.Column("question", sa.String(length=64), nullable=True),
        sa.ForeignKeyConstraint(
            ["grading_id"], ["gradings.id"], name=op.f("fk_verdicts_grading_id")
        ),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name=op.f("fk_verdicts_trial_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_verdicts")),
        sa.UniqueConstraint("grading_id", name=op.f("uq_verdicts_grading_id")),
    )
    with op.batch_alter_table("verdicts", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_verdicts_question"), ["question"], unique=False)
        batch_op.create_index(
            batch_op.f("ix_verdicts_trial_id_at_id"), ["trial_id", "at", "id"], unique=False
        )
        batch_op.create_index(
            batch_op.f("ix_verdicts_spent"),
            ["tenant", "run", "answers", "input_tokens", "output_tokens", "nano_usd"],
            unique=False,
        )
