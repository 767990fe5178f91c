"""The watchdog: who is replaced, and who only looks as if."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from grader_service.cli.watchdog import Watchdog
from grader_service.storage import workers
from grader_service.storage.database import Database
from grader_service.storage.migrations import upgrade
from tests.storage.conftest import Clock

AFTER_S = 0.06


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def database(tmp_path: Path, clock: Clock) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'up.db'}", clock=clock)
    upgrade(database)
    with database.write() as unit:
        workers.boot(unit, node="w1", boot_id="b1", judges=["j"])
    yield database
    database.close()


def tick(database: Database, *, progress: bool) -> None:
    with database.write() as unit:
        workers.tick(unit, node="w1", boot_id="b1", in_flight=0, progress=progress)


def looks(watchdog: Watchdog, times: int, *, running_s: float = 1000.0) -> list[str | None]:
    seen: list[str | None] = []
    for _ in range(times):
        time.sleep(AFTER_S / 5)
        seen.append(watchdog.check(running_s=running_s))
    return seen


def test_a_worker_that_makes_progress_is_left_alone(database: Database, clock: Clock) -> None:
    clock.now += 60
    tick(database, progress=True)
    assert looks(Watchdog(database, "w1", AFTER_S), 3) == [None, None, None]


def test_a_worker_that_takes_nothing_though_it_could_is_deaf(
    database: Database, clock: Clock
) -> None:
    clock.now += 60
    tick(database, progress=False)
    assert looks(Watchdog(database, "w1", AFTER_S), 3) == [None, "deaf", "deaf"]


def test_a_worker_without_any_sign_of_life_is_frozen(database: Database, clock: Clock) -> None:
    clock.now += 60
    assert looks(Watchdog(database, "w1", AFTER_S), 2) == [None, "frozen"]


def test_a_worker_that_catches_up_after_an_outage_is_left_alone(
    database: Database, clock: Clock
) -> None:
    watchdog = Watchdog(database, "w1", AFTER_S)
    clock.now += 60
    assert looks(watchdog, 1) == [None]
    tick(database, progress=True)
    assert looks(watchdog, 3) == [None, None, None]


def test_while_the_database_is_away_nobody_is_suspected(tmp_path: Path) -> None:
    away = Database(f"sqlite:///{tmp_path / 'not migrated.db'}")
    assert looks(Watchdog(away, "w1", AFTER_S), 3) == [None, None, None]
    away.close()


@pytest.mark.parametrize("node", ["w1", "w2"])
def test_a_worker_that_starts_gets_a_minute_for_its_first_sign_of_life(
    database: Database, clock: Clock, node: str
) -> None:
    # There is nothing of w2, and of w1 what its predecessor left.
    clock.now += 500
    watchdog = Watchdog(database, node, AFTER_S)
    assert looks(watchdog, 3, running_s=59.0) == [None, None, None]
    assert looks(watchdog, 2, running_s=61.0) == [None, "frozen"]


def test_while_nobody_can_write_nobody_is_suspected(
    database: Database, clock: Clock, tmp_path: Path
) -> None:
    impatient = Database(database.url, clock=clock, wait_s=0.05)
    with closing(sqlite3.connect(tmp_path / "up.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        clock.now += 60
        assert looks(Watchdog(impatient, "w1", AFTER_S), 3) == [None, None, None]
    impatient.close()
