"""The migrations build exactly the tables that the code speaks of."""

from __future__ import annotations

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from grader_service.storage.database import Database
from grader_service.storage.migrations import upgrade
from grader_service.storage.tables import metadata


def test_the_migrated_schema_is_that_of_the_tables(database: Database) -> None:
    with database.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_migrating_twice_changes_nothing(database: Database) -> None:
    upgrade(database)
    with database.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
