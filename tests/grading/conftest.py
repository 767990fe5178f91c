"""A migrated database for use cases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grader_service.storage.database import Database
from grader_service.storage.migrations import upgrade


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'grading.db'}")
    upgrade(database)
    yield database
    database.close()
