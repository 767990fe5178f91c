"""An update goes round: each process is stopped and started, and nobody's trial notices."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from grader_service.errors import UnavailableError
from grader_service.providers.stub import StubModel
from tests.contracts.trials import answer_after, robot_trial
from tests.support.judges import judge_at
from tests.support.servers import RedisServer, start_redis
from tests.support.stack import Stack, running, wait_until

TRIALS = 60


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with start_redis(tmp_path) as server:
        yield server


@pytest.fixture
def model() -> Iterator[StubModel]:
    with StubModel() as model:
        answer_after(model, 0.5)
        yield model


@pytest.fixture
def stack(tmp_path: Path, redis: RedisServer, model: StubModel) -> Iterator[Stack]:
    with running(tmp_path / "home", redis.url, {"m": judge_at(model.url)}) as stack:
        stack.start_worker("w2")
        yield stack


def submit_patiently(stack: Stack) -> list[str]:
    """Submit trials as a rig does: one after the other, again when the service is away."""
    ids = []
    with stack.client() as client:
        for number in range(TRIALS):
            trial, parts = robot_trial(number)
            while True:
                try:
                    ids.append(client.submit(trial, parts)["id"])
                    break
                except UnavailableError:
                    time.sleep(0.05)
            time.sleep(0.1)
    return ids


def both_workers_are_up(stack: Stack) -> bool:
    with stack.client() as client:
        return bool(client.readiness()["workers"] == 2)


@pytest.mark.timeout(600)
def test_restarting_the_api_and_every_worker_in_turn_loses_nothing_and_asks_nothing_twice(
    stack: Stack, model: StubModel
) -> None:
    with ThreadPoolExecutor(1) as pool:
        submitting = pool.submit(submit_patiently, stack)
        wait_until(lambda: both_workers_are_up(stack), what="both workers")
        for name in ("w1", "api", "w2", "w1", "api", "w2"):
            assert stack.stop(name) == 0
            if name == "api":
                stack.start_api()
            else:
                stack.start_worker(name)
            # The next one only once this one is back, as whoever rolls out an update does it.
            wait_until(lambda: both_workers_are_up(stack), what=f"{name} to be back")
        ids = submitting.result()
    stack.wait_for("r")
    assert len(set(ids)) == TRIALS
    with stack.client() as client:
        for trial_id in ids:
            [verdict] = client.verdicts(trial_id)
            assert verdict["verdict"] == "success"
    calls = Counter(call["key"] for call in model.log)
    assert len(calls) == TRIALS
    assert set(calls.values()) == {1}
