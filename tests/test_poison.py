"""A trial that kills whichever worker takes it ends by itself, and takes no other along."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader_service.providers.stub import StubModel
from grader_service.storage.gradings import ALONE_AFTER, MAX_LOST_LEASES
from tests.contracts.trials import robot_trial
from tests.support.judges import judge_at
from tests.support.servers import RedisServer, start_redis
from tests.support.stack import Stack, running, wait_until

POISON = "Put block 0 away."
INNOCENTS = 12


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with start_redis(tmp_path) as server:
        yield server


@pytest.fixture
def model() -> Iterator[StubModel]:
    script = [
        # Never answered in time: the worker is dead by then.
        {"match": {"text": POISON}, "latency": 120, "replies": [{"verdict": "success"}]},
        {"match": {}, "latency": 0.2, "per_key": True, "replies": [{"verdict": "success"}]},
    ]
    with StubModel(script=script) as model:
        yield model


@pytest.fixture
def stack(tmp_path: Path, redis: RedisServer, model: StubModel) -> Iterator[Stack]:
    judges = {"m": judge_at(model.url)}
    with running(tmp_path / "home", redis.url, judges, AUTOGRADER_STALE_S="1") as stack:
        yield stack


def asked_about(model: StubModel) -> Counter[str]:
    """How often the model was asked about each trial, by its instruction."""
    lines = [line for call in model.log for text in call["texts"] for line in text.splitlines()]
    return Counter(line for line in lines if line.startswith("Put block "))


@pytest.mark.timeout(600)
def test_a_trial_on_which_every_worker_dies_ends_as_worker_lost_and_alone(
    stack: Stack, model: StubModel
) -> None:
    with stack.client() as client:
        poison, *innocents = (
            client.submit(*robot_trial(number))["id"] for number in range(1 + INNOCENTS)
        )
    for death in range(1, MAX_LOST_LEASES + 1):
        wait_until(lambda: asked_about(model)[POISON] >= death, what="the poison")  # noqa: B023
        stack.kill("w1")
        stack.start_worker("w1")
    stack.wait_for("r")
    with stack.client() as client:
        ended = client.trial(poison)
        assert (ended["outcome"], ended["reason"]) == ("ungraded", "worker_lost")
        for trial_id in innocents:
            assert client.trial(trial_id)["verdict"] == "success"
            assert len(client.verdicts(trial_id)) == 1
    calls = asked_about(model)
    assert calls.pop(POISON) == MAX_LOST_LEASES
    assert len(calls) == INNOCENTS
    # An innocent can be in flight only when the worker dies for the first times.
    assert max(calls.values()) <= 1 + ALONE_AFTER
