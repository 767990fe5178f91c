"""Alembic migrations, run by `autograder migrate` and by `autograder up`."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config

from grader_service.storage.database import Database


def upgrade(database: Database) -> None:
    """Bring the schema to the newest revision. Doing it twice does nothing."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    with database.engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
