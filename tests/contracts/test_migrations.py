"""Migrations may run at any time: by several processes at once, and while older code serves."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Column, Text, text

from grader_service.errors import SetupError, UnavailableError
from grader_service.storage.database import Database
from grader_service.storage.migrations import upgrade
from tests.support.servers import new_postgres_database
from tests.support.stack import AUTOGRADER, Stack, wait_until
from tests.support.submitting import submit_all

NO_BROKER = "redis://127.0.0.1:9/0"


@pytest.fixture(params=["sqlite", "postgresql"])
def stack(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stack]:
    """The processes of a service whose database is empty; none of them runs."""
    settings = {}
    if request.param == "postgresql":
        url = new_postgres_database(request.getfixturevalue("postgres_url"))
        settings = {"AUTOGRADER_DATABASE_URL": url}
    stack = Stack(tmp_path / "home", NO_BROKER, settings=settings)
    yield stack
    stack.close()


def database_of(stack: Stack) -> Database:
    default = f"sqlite:///{stack.home / 'autograder.db'}"
    return Database(stack.settings.get("AUTOGRADER_DATABASE_URL", default))


def migrate_at_once(stack: Stack, processes: int) -> list[tuple[int, str]]:
    """Run `autograder migrate` in several processes; return their exit codes and what they say."""
    children = [
        subprocess.Popen(
            [*AUTOGRADER, "migrate"],
            env=stack.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(processes)
    ]
    said = [child.communicate(timeout=120)[1] for child in children]
    return [(child.returncode, text) for child, text in zip(children, said, strict=True)]


def revisions(database: Database) -> list[str]:
    with database.engine.connect() as connection:
        return list(connection.execute(text("SELECT version_num FROM alembic_version")).scalars())


def test_processes_that_migrate_at_once_do_it_once(stack: Stack) -> None:
    assert migrate_at_once(stack, 4) == [(0, "")] * 4
    database = database_of(stack)
    assert len(revisions(database)) == 1
    database.close()


def test_trials_are_taken_and_read_while_a_newer_release_migrates(
    stack: Stack, sample_trials: Path
) -> None:
    stack.migrate()
    stack.start_api()
    run = sample_trials.parent / "a320" / "g01_apu_full.jsonl"
    taken: list[str] = []
    done = threading.Event()

    def submit_on_and_on() -> None:
        with stack.client() as client:
            while not done.is_set():
                taken.extend(submit_all(client, run, run=f"r{len(taken)}"))

    def taken_since(count: int) -> bool:
        return len(taken) > count + 5 or submitting.done()

    database = database_of(stack)
    with ThreadPoolExecutor(1) as pool:
        submitting = pool.submit(submit_on_and_on)
        try:
            assert migrate_at_once(stack, 2) == [(0, "")] * 2
            for table in ("trials", "gradings", "verdicts"):
                with database.write() as unit:
                    operations = Operations(MigrationContext.configure(unit.connection))
                    operations.add_column(table, Column("of_a_newer_release", Text))
            before = len(taken)
            wait_until(lambda: taken_since(before), what="trials to be taken")
        finally:
            done.set()
        submitting.result()
    with stack.client() as client:
        assert [client.trial(trial_id)["state"] for trial_id in taken] == ["queued"] * len(taken)
    database.close()


def test_a_database_of_a_newer_release_is_left_alone(stack: Stack) -> None:
    stack.migrate()
    database = database_of(stack)
    with database.write() as unit:
        unit.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(SetupError) as caught:
        upgrade(database)
    assert "newest version" in str(caught.value.fix)
    assert revisions(database) == ["9999"]
    database.close()


def test_a_migration_that_would_hold_everybody_up_gives_up(postgres_url: str) -> None:
    url = new_postgres_database(postgres_url)
    database, report = Database(url, wait_s=0.3), Database(url)
    upgrade(database)
    with report.write() as unit:
        unit.execute(text("LOCK TABLE alembic_version IN ACCESS EXCLUSIVE MODE"))
        with pytest.raises(UnavailableError):
            upgrade(database)
    upgrade(database)
    report.close()
    database.close()
