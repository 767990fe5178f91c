"""Every storage test runs on SQLite and on PostgreSQL, each built by its migrations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grader_service.storage.database import Database
from grader_service.storage.migrations import upgrade
from tests.support.servers import new_postgres_database


class Clock:
    """A clock that moves when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Database]:
    """An empty, migrated database whose time is the test's clock."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'test.db'}"
    else:
        url = new_postgres_database(request.getfixturevalue("postgres_url"))
    database = Database(url, clock=clock)
    upgrade(database)
    yield database
    database.close()
