"""What is full or away delays trials: 503 and nothing half-stored, then everything as before."""

from __future__ import annotations

import json
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from sqlalchemy import select

from grader_service.providers.stub import StubModel
from grader_service.storage.database import Database
from grader_service.storage.tables import gradings
from tests.contracts.trials import answer_after, robot_trial
from tests.support.judges import judge_at
from tests.support.servers import (
    PostgresServer,
    S3Server,
    new_postgres_database,
    postgres_server,
    start_redis,
    start_s3,
)
from tests.support.stack import AUTOGRADER, Stack, wait_until

NO_BROKER = "redis://127.0.0.1:9/0"
TRIALS = 24


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """A service on SQLite and a folder whose API alone runs; it does not wait long for a lock."""
    stack = Stack(tmp_path / "home", NO_BROKER, settings={"AUTOGRADER_DATABASE_WAIT_S": "0.5"})
    stack.migrate()
    stack.start_api()
    yield stack
    stack.close()


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL that may be stopped."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def s3() -> Iterator[S3Server]:
    """An S3 server that may be stopped."""
    with start_s3() as server:
        yield server


def post(stack: Stack, number: int) -> httpx2.Response:
    """Submit a trial, with the answer as it comes over the wire."""
    trial, parts = robot_trial(number)
    files = {name: (name, data) for name, data in parts.items()}
    return httpx2.post(
        f"{stack.url}/v1/trials",
        files={"trial": (None, json.dumps(trial).encode()), **files},
        timeout=60,
        trust_env=False,
    )


def assert_asks_to_come_back(response: httpx2.Response) -> None:
    assert response.status_code == 503
    assert int(response.headers["Retry-After"]) >= 1
    problem = response.json()
    assert problem["type"].endswith("/unavailable")
    assert problem["fix"]
    assert "\n" not in problem["detail"]


def status(stack: Stack, path: str) -> int:
    return httpx2.get(stack.url + path, timeout=60, trust_env=False).status_code


def assert_holds_exactly(stack: Stack, numbers: range) -> None:
    """Check that these trials are there, each whole and with its grading, and no other."""
    with stack.client() as client:
        found = {trial["client_id"]: trial for trial in client.trials(run="r")}
        assert found.keys() == {f"r-{n:04}" for n in numbers}
        assert {trial["state"] for trial in found.values()} <= {"queued", "running", "done"}
        for trial in found.values():
            assert client.record(trial["id"])


def limit_files(stack: Stack, most: int) -> None:
    """Let no file of the API grow beyond `most` bytes: to a process, a disk that is full."""
    [pid] = stack.pids()
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, hard))


@pytest.mark.skipif(sys.platform != "linux", reason="limits another process by prlimit")
def test_when_the_disk_takes_no_frame_nothing_is_stored(stack: Stack) -> None:
    assert post(stack, 0).status_code == 202
    limit_files(stack, 4096)
    assert_asks_to_come_back(post(stack, 1))
    assert_holds_exactly(stack, range(1))
    limit_files(stack, resource.RLIM_INFINITY)
    assert post(stack, 1).status_code == 202
    assert post(stack, 1).status_code == 200
    assert_holds_exactly(stack, range(2))


@pytest.mark.skipif(sys.platform != "linux", reason="limits another process by prlimit")
def test_when_the_disk_has_no_room_for_the_database_nothing_is_half_stored(stack: Stack) -> None:
    # Room for every frame, soon none for the database's log.
    limit_files(stack, 200_000)
    number = 0
    while (response := post(stack, number)).status_code == 202:
        number += 1
    assert_asks_to_come_back(response)
    assert number > 0
    assert_holds_exactly(stack, range(number))
    limit_files(stack, resource.RLIM_INFINITY)
    assert post(stack, number).status_code == 202
    assert_holds_exactly(stack, range(number + 1))


def test_while_another_program_locks_the_database_trials_are_refused_and_read(
    stack: Stack,
) -> None:
    assert post(stack, 0).status_code == 202
    program = sqlite3.connect(stack.home / "autograder.db", isolation_level=None)
    program.execute("BEGIN EXCLUSIVE")
    assert_asks_to_come_back(post(stack, 1))
    assert status(stack, "/readyz") == 503
    assert status(stack, "/healthz") == 200
    assert_holds_exactly(stack, range(1))
    program.execute("ROLLBACK")
    program.close()
    assert post(stack, 1).status_code == 202
    assert status(stack, "/readyz") == 200
    assert_holds_exactly(stack, range(2))


def test_while_postgresql_is_down_trials_are_refused(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    url = new_postgres_database(postgres.url)
    stack = Stack(tmp_path / "home", NO_BROKER, settings={"AUTOGRADER_DATABASE_URL": url})
    try:
        stack.migrate()
        stack.start_api()
        assert post(stack, 0).status_code == 202
        postgres.stop()
        assert_asks_to_come_back(post(stack, 1))
        assert status(stack, "/readyz") == 503
        assert status(stack, "/healthz") == 200
        postgres.start()
        assert post(stack, 1).status_code == 202
        assert_holds_exactly(stack, range(2))
    finally:
        stack.close()


def test_while_s3_is_down_trials_are_refused(tmp_path: Path, s3: S3Server) -> None:
    bucket = s3.make_bucket()
    settings = {**s3.environment, "AUTOGRADER_BLOBS_URL": f"s3://{bucket}"}
    stack = Stack(tmp_path / "home", NO_BROKER, settings=settings)
    try:
        stack.migrate()
        stack.start_api()
        s3.stop()
        assert_asks_to_come_back(post(stack, 0))
        assert_holds_exactly(stack, range(0))
        s3.start()
        s3.make_bucket(bucket)
        assert post(stack, 0).status_code == 202
        assert_holds_exactly(stack, range(1))
    finally:
        stack.close()


def test_a_trial_whose_frames_cannot_be_read_now_waits_and_is_not_blamed(tmp_path: Path) -> None:
    with start_redis(tmp_path) as redis, StubModel() as model:
        stack = Stack(tmp_path / "home", redis.url, {"m": judge_at(model.url)})
        blobs, elsewhere = stack.home / "blobs", tmp_path / "elsewhere"
        try:
            stack.migrate()
            stack.start_api()
            stack.start_worker("w1")
            with stack.client() as client:
                wait_until(lambda: client.readiness()["workers"], what="the worker")
            stack.send("w1", signal.SIGSTOP)
            assert post(stack, 0).status_code == 202
            blobs.rename(elsewhere)
            stack.send("w1", signal.SIGCONT)
            wait_until(lambda: row(stack).last_error, what="the worker to look for the frames")
            assert row(stack).failures == 0
            elsewhere.rename(blobs)
            summary = stack.wait_for("r")
            assert row(stack).failures == 0
        finally:
            stack.close()
    assert summary["ungraded"]["n"] == 0


def row(stack: Stack) -> Any:
    """Return the one grading of a service on SQLite."""
    database = Database(f"sqlite:///{stack.home / 'autograder.db'}")
    with database.read() as unit:
        found = unit.execute(select(gradings)).one()
    database.close()
    return found


def test_workers_outlive_a_stop_of_postgresql_and_lose_no_verdict_that_was_paid_for(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    concurrency = 4
    settings = {
        "AUTOGRADER_DATABASE_URL": new_postgres_database(postgres.url),
        "AUTOGRADER_LEASE_S": "8",
        "AUTOGRADER_STALE_S": "3",
    }
    with start_redis(tmp_path) as redis, StubModel() as model:
        stack = Stack(tmp_path / "home", redis.url, {"m": judge_at(model.url)}, settings)
        try:
            stack.migrate()
            stack.start_api()
            for number in range(TRIALS):
                assert post(stack, number).status_code == 202
            answer_after(model, 3.0)
            for name in ("w1", "w2"):
                stack.start_worker(name, concurrency=concurrency)
            with stack.client() as client:
                wait_until(lambda: client.run("r")["pending"]["running"], what="a call in flight")
            postgres.stop()
            # Long enough for its answer to come in while nobody takes it.
            time.sleep(4)
            answer_after(model, 0.1)
            postgres.start()
            summary = stack.wait_for("r")
            assert_holds_exactly(stack, range(TRIALS))
            with stack.client() as client:
                verdicts = [client.verdicts(trial["id"]) for trial in client.trials(run="r")]
        finally:
            stack.close()
        calls = Counter(request["key"] for request in model.log)
    assert summary["graded"]["n"] + summary["abstained"]["n"] == TRIALS
    assert [len(found) for found in verdicts] == [1] * TRIALS
    assert len(calls) == TRIALS
    # Two workers' calls in flight, at most, are asked again.
    assert sum(calls.values()) <= TRIALS + 2 * concurrency


def test_a_worker_that_starts_while_postgresql_is_down_grades_as_soon_as_it_is_back(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    settings = {"AUTOGRADER_DATABASE_URL": new_postgres_database(postgres.url)}
    with start_redis(tmp_path) as redis, StubModel() as model:
        stack = Stack(tmp_path / "home", redis.url, {"m": judge_at(model.url)}, settings)
        try:
            stack.migrate()
            stack.start_api()
            assert post(stack, 0).status_code == 202
            postgres.stop()
            stack.start_worker("w1")
            time.sleep(5)
            postgres.start()
            assert stack.wait_for("r")["ungraded"]["n"] == 0
        finally:
            stack.close()


def test_a_worker_that_can_never_work_ends_and_says_why(tmp_path: Path) -> None:
    stack = Stack(tmp_path / "home", NO_BROKER, {"vendor": "anthropic:claude"})
    stack.migrate()
    done = subprocess.run(
        [*AUTOGRADER, "worker"],
        env=stack.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode > 0
    assert "fix: set ANTHROPIC_API_KEY" in done.stderr
    assert "Traceback" not in done.stderr
