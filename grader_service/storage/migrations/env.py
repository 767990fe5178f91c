"""Alembic's entry: runs the migrations on the connection that `upgrade` hands over."""

from __future__ import annotations

from alembic import context

from grader_service.storage.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite can't alter a table in place.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
