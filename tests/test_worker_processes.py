"""Worker processes outlive what they depend on (real processes, real Redis)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grader_service.client.http import Client
from grader_service.providers.stub import StubModel
from tests.chaos.trials import make_trial
from tests.support.judges import judge_at
from tests.support.servers import RedisServer, start_redis
from tests.support.stack import Stack, running, wait_until


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis of its own: these tests stop it."""
    with start_redis(tmp_path) as server:
        yield server


def submit(client: Client, number: int) -> None:
    trial = make_trial(0, number, run="r")
    client.submit(trial.form, trial.frames)


def test_a_worker_goes_on_when_redis_goes_away_while_it_asks(
    tmp_path: Path, redis: RedisServer
) -> None:
    # Fewer trials than threads: the worker also waits for messages when the connection breaks.
    with (
        StubModel(latency=3) as model,
        running(tmp_path / "home", redis.url, {"m": judge_at(model.url)}) as stack,
        stack.client() as client,
    ):
        submit(client, 1)
        wait_until(lambda: model.log, what="the call")
        redis.stop()
        wait_until(lambda: not client.run("r")["pending"]["n"], what="the verdict")
        redis.start()
        submit(client, 2)
        stack.wait_for("r")
        assert stack.ended() == []
        assert len(model.log) == 2


def test_a_worker_that_starts_before_its_database_keeps_its_leases_all_the_same(
    tmp_path: Path, redis: RedisServer
) -> None:
    with StubModel(latency=2.5) as model:
        settings = {"AUTOGRADER_LEASE_S": "1"}
        stack = Stack(tmp_path / "home", redis.url, {"m": judge_at(model.url)}, settings)
        with (tmp_path / "log").open("w+") as stack.output:
            try:
                stack.start_worker("w1")
                wait_until(
                    lambda: "waits to start" in (tmp_path / "log").read_text(), what="the worker"
                )
                stack.migrate()
                stack.start_api()
                stack.start_worker("w2")
                with stack.client() as client:
                    submit(client, 1)
                stack.wait_for("r")
                assert len(model.log) == 1
            finally:
                stack.close()


def test_a_worker_that_can_not_be_set_up_says_so_and_ends(
    tmp_path: Path, redis: RedisServer
) -> None:
    judges = {"m": {"provider": "openai", "model": "m"}}
    stack = Stack(tmp_path / "home", redis.url, judges)
    with (tmp_path / "log").open("w+") as stack.output:
        try:
            stack.start_worker("w1")
            wait_until(stack.ended, what="its end")
        finally:
            stack.close()
    said = (tmp_path / "log").read_text()
    assert "the judge 'm' has no key" in said
    assert "fix: " in said
