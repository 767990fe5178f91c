"""Alembic migrations, run by `autograder migrate` and by `autograder up`."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import text

from grader_service.errors import SetupError
from grader_service.storage.database import Database

# Any number that no other program on the server uses for the same.
_ADVISORY_LOCK = 0x6175746F67726164
_PATIENCE_S = 5.0


def upgrade(database: Database) -> None:
    """Bring the schema to the newest revision, in one transaction. Doing it twice does nothing.

    Of several processes that call it at once, one does the work and the others wait for it. Raises
    UnavailableError when the database can't be reached or is too busy, SetupError when a newer
    version migrated it; nothing has changed then.
    """
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    # A transaction that writes: on SQLite it excludes every other from its first statement on.
    with database.write() as unit:
        if unit.dialect == "postgresql":
            unit.execute(text(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})"))
            # While it waits for a table, everybody else waits behind it.
            patience_ms = 1000 * min(_PATIENCE_S, database.wait_s)
            unit.execute(text(f"SET LOCAL lock_timeout = {patience_ms:.0f}"))
        config.attributes["connection"] = unit.connection
        try:
            command.upgrade(config, "head")
        except CommandError as error:
            raise SetupError(
                f"the database was migrated by another version of this program: {error}",
                fix="run `autograder migrate` of the newest version; what runs may go on meanwhile",
            ) from error
