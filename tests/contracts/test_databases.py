"""The contract of a database: SQLite and PostgreSQL keep it alike (statements: tests/storage)."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from grader_service.errors import SetupError, UnavailableError
from grader_service.storage import gradings, publishing, trials
from grader_service.storage.database import Database
from grader_service.storage.migrations import upgrade
from tests.support.servers import PostgresServer, new_postgres_database, postgres_server

KINDS = ["sqlite", "postgresql"]
RUBRIC = "r" * 64


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'test.db'}"
    return new_postgres_database(request.getfixturevalue("postgres_url"))


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    """A migrated database."""
    database = Database(url)
    upgrade(database)
    yield database
    database.close()


def put_rubric(database: Database, digest: str = RUBRIC) -> None:
    with database.write() as unit:
        trials.put_rubric(unit, digest=digest, rubric_id="x", body={})


def has_rubric(database: Database, digest: str = RUBRIC) -> bool:
    with database.read() as unit:
        return trials.get_rubric(unit, digest) is not None


def enqueue(database: Database, count: int) -> list[str]:
    """Store trials with a queued grading each; return the gradings' ids."""
    put_rubric(database)
    with database.write() as unit:
        new = trials.NewTrial("t", "r", None, "c", "robot", "s", 0, None, RUBRIC, "d", [], [])
        return [
            gradings.enqueue(
                unit,
                trial_id=trials.add(unit, new),
                tenant="t",
                run="r",
                rubric_digest=RUBRIC,
                judge="j",
                judge_digest="jd",
            )
            for _ in range(count)
        ]


def test_of_a_transaction_that_fails_nothing_is_kept(database: Database) -> None:
    def fail() -> None:
        with database.write() as unit:
            trials.put_rubric(unit, digest=RUBRIC, rubric_id="x", body={})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not has_rubric(database)


def test_nobody_sees_what_is_not_committed(url: str, database: Database) -> None:
    other = Database(url)
    with database.write() as unit:
        trials.put_rubric(unit, digest=RUBRIC, rubric_id="x", body={})
        assert not has_rubric(other)
    assert has_rubric(other)
    other.close()


def test_the_clock_is_the_databases_and_moves_within_a_transaction(database: Database) -> None:
    with database.read() as unit:
        first = unit.time()
        time.sleep(0.02)
        second = unit.time()
    assert second > first
    assert abs(second - time.time()) < 60


def test_writers_of_two_processes_wait_for_each_other_and_lose_nothing(
    url: str, database: Database
) -> None:
    other = Database(url)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: put_rubric((database, other)[n % 2], digest=f"{n:064}"), range(40)))
    assert all(has_rubric(database, digest=f"{n:064}") for n in range(40))
    other.close()


def test_two_first_submissions_may_bring_the_same_rubric_at_once(
    url: str, database: Database
) -> None:
    other = Database(url)
    with ThreadPoolExecutor(1) as pool, database.write() as unit:
        trials.put_rubric(unit, digest=RUBRIC, rubric_id="x", body={})
        second = pool.submit(put_rubric, other)
        # Time for it to come as far as it gets while the first is not committed.
        time.sleep(0.3)
    second.result(timeout=20)
    assert has_rubric(database)
    other.close()


def test_pumps_that_run_at_once_share_the_due_rows_and_none_takes_one_twice(
    url: str, database: Database
) -> None:
    ids = enqueue(database, 60)
    others = [Database(url) for _ in range(3)]
    start = threading.Barrier(3, timeout=20)

    def pump(own: Database) -> list[str]:
        start.wait()
        taken: list[str] = []
        while True:
            with own.write() as unit:
                due = publishing.publish_due(unit, judges=["j"], limit=5, stale_s=30)
            if not due:
                return taken
            taken += due

    with ThreadPoolExecutor(3) as pool:
        taken = [grading_id for due in pool.map(pump, others) for grading_id in due]
    assert sorted(taken) == sorted(ids)
    for other in others:
        other.close()


def test_a_database_that_is_not_migrated_says_what_to_do(url: str) -> None:
    database = Database(url)
    with pytest.raises(UnavailableError) as caught, database.read() as unit:
        gradings.peek(unit, "some id")
    assert "autograder migrate" in str(caught.value.fix)
    assert "SELECT" not in caught.value.message
    database.close()


def test_when_every_connection_is_taken_a_request_waits_only_so_long(url: str) -> None:
    database = Database(url, pool_size=1, wait_s=0.2)
    with database.read(), database.read(), pytest.raises(UnavailableError), database.read():
        pass
    with database.read() as unit:
        assert unit.time() > 0
    database.close()


# --- PostgreSQL ---------------------------------------------------------------------------------


def test_a_pump_takes_what_another_has_not_rather_than_wait_for_it(postgres_url: str) -> None:
    url = new_postgres_database(postgres_url)
    first, second = Database(url), Database(url)
    upgrade(first)
    ids = enqueue(first, 8)
    with first.write() as unit:
        held = publishing.publish_due(unit, judges=["j"], limit=5, stale_s=30)
        # Still open: its rows are locked. Without SKIP LOCKED this would wait for ever.
        with second.write() as other:
            rest = publishing.publish_due(other, judges=["j"], limit=5, stale_s=30)
    assert len(held) == 5
    assert sorted(held + rest) == sorted(ids)
    first.close()
    second.close()


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A PostgreSQL that may be stopped."""
    with postgres_server() as server:
        yield server


def test_a_server_that_was_away_is_found_again_without_a_restart(server: PostgresServer) -> None:
    database = Database(new_postgres_database(server.url))
    upgrade(database)
    put_rubric(database)
    server.stop()
    for transaction in (database.read, database.write):
        with pytest.raises(UnavailableError) as caught, transaction() as unit:
            unit.time()
        assert caught.value.retry_after > 0
    server.start()
    assert has_rubric(database)
    database.close()


def test_a_server_that_goes_away_in_the_middle_of_a_transaction_keeps_nothing_of_it(
    server: PostgresServer,
) -> None:
    database = Database(new_postgres_database(server.url))
    upgrade(database)

    def lose_the_server() -> None:
        with database.write() as unit:
            trials.put_rubric(unit, digest=RUBRIC, rubric_id="x", body={})
            server.stop()

    with pytest.raises(UnavailableError):
        lose_the_server()
    server.start()
    assert not has_rubric(database)
    database.close()


# --- SQLite -------------------------------------------------------------------------------------


def test_a_file_that_another_program_locks_for_too_long_is_unavailable(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'test.db'}", wait_s=0.3)
    upgrade(database)
    program = sqlite3.connect(tmp_path / "test.db", isolation_level=None)
    program.execute("BEGIN EXCLUSIVE")
    with pytest.raises(UnavailableError, match="locked"):
        put_rubric(database)
    # Reading goes on: the lock is a writer's.
    assert not has_rubric(database)
    program.execute("ROLLBACK")
    put_rubric(database)
    assert has_rubric(database)
    program.close()
    database.close()


def test_threads_behind_a_writer_that_hangs_do_not_wait_one_after_the_other(
    tmp_path: Path,
) -> None:
    database = Database(f"sqlite:///{tmp_path / 'test.db'}", wait_s=0.3)
    upgrade(database)
    with database.write(), ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(put_rubric, database) for _ in range(8)]
        for future in waiting:
            with pytest.raises(UnavailableError, match="writing for too long"):
                future.result(timeout=20)
    database.close()


def test_a_database_whose_folder_cannot_be_made_is_a_wrong_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SetupError) as caught:
        Database(f"sqlite:///{tmp_path / 'file' / 'test.db'}")
    assert "AUTOGRADER_HOME" in str(caught.value.fix)
