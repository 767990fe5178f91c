"""Whatever dies, each trial ends with exactly one verdict (real processes, real Redis)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader_service.providers.stub import StubModel
from tests.support.judges import judge_at
from tests.support.servers import RedisServer, start_redis
from tests.support.stack import Stack, running
from tests.support.submitting import submit_all

TRIALS = 24


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis of its own: these tests kill it."""
    with start_redis(tmp_path) as server:
        yield server


@pytest.fixture
def model() -> Iterator[StubModel]:
    """A model that takes its time, so that there is something to interrupt."""
    with StubModel(latency=0.3) as stub:
        yield stub


@pytest.fixture
def stack(tmp_path: Path, redis: RedisServer, model: StubModel) -> Iterator[Stack]:
    settings = {"AUTOGRADER_LEASE_S": "3", "AUTOGRADER_STALE_S": "3"}
    with running(tmp_path / "home", redis.url, {"m": judge_at(model.url)}, **settings) as stack:
        yield stack


def calls_by_trial(model: StubModel) -> Counter[str]:
    return Counter(request["key"] for request in model.log)


def assert_each_trial_has_one_verdict(stack: Stack) -> None:
    with stack.client() as client:
        trials = list(client.trials(run="r"))
        assert len(trials) == TRIALS
        assert all(trial["state"] == "done" for trial in trials)
        assert all(trial["outcome"] in ("graded", "abstained") for trial in trials)
        for trial in trials:
            assert len(client.verdicts(trial["id"])) == 1


def test_a_worker_that_is_killed_half_way_loses_and_repeats_no_verdict(
    stack: Stack, model: StubModel, sample_trials: Path
) -> None:
    with stack.client() as client:
        submit_all(client, sample_trials, run="r")
    stack.wait_for("r", done=TRIALS // 2)
    stack.kill("w1")
    stack.start_worker("w1")
    stack.wait_for("r")
    assert_each_trial_has_one_verdict(stack)
    calls = calls_by_trial(model)
    assert len(calls) == TRIALS
    # Only what was in flight at the kill is asked again.
    assert sum(calls.values()) <= TRIALS + 8


def test_another_worker_takes_over_from_one_that_never_comes_back(
    stack: Stack, sample_trials: Path
) -> None:
    with stack.client() as client:
        submit_all(client, sample_trials, run="r")
    stack.wait_for("r", done=4)
    stack.kill("w1")
    stack.start_worker("w2")
    stack.wait_for("r")
    assert_each_trial_has_one_verdict(stack)


def test_a_broker_that_loses_everything_delays_and_loses_nothing(
    stack: Stack, redis: RedisServer, model: StubModel, sample_trials: Path
) -> None:
    with stack.client() as client:
        submit_all(client, sample_trials, run="r")
    stack.wait_for("r", done=4)
    redis.stop()
    time.sleep(0.5)
    redis.start()
    stack.wait_for("r")
    assert_each_trial_has_one_verdict(stack)
    assert sum(calls_by_trial(model).values()) == TRIALS


def test_trials_are_taken_while_the_broker_is_down(
    stack: Stack, redis: RedisServer, sample_trials: Path
) -> None:
    redis.stop()
    with stack.client() as client:
        submit_all(client, sample_trials, run="r")
        assert client.run("r")["pending"]["n"] == TRIALS
    redis.start()
    stack.wait_for("r")
    assert_each_trial_has_one_verdict(stack)


def test_a_graceful_stop_ends_what_is_in_flight_and_asks_nothing_twice(
    stack: Stack, model: StubModel, sample_trials: Path
) -> None:
    with stack.client() as client:
        submit_all(client, sample_trials, run="r")
    stack.wait_for("r", done=2)
    assert stack.stop("w1") == 0
    stack.start_worker("w1")
    stack.wait_for("r")
    assert_each_trial_has_one_verdict(stack)
    assert sum(calls_by_trial(model).values()) == TRIALS


def test_an_outage_of_the_provider_is_waited_out(
    tmp_path: Path, redis: RedisServer, sample_trials: Path
) -> None:
    with StubModel() as model:
        replies = [{"fault": "503"}, {"fault": "429;ra=0"}, {"verdict": "success"}]
        model.script([{"match": {}, "per_key": True, "replies": replies}])
        with running(tmp_path / "home", redis.url, {"m": judge_at(model.url)}) as stack:
            with stack.client() as client:
                submit_all(client, sample_trials, run="r")
            stack.wait_for("r")
            assert_each_trial_has_one_verdict(stack)


def test_an_outage_without_end_is_ungraded_and_never_a_failure(
    tmp_path: Path, redis: RedisServer, sample_trials: Path
) -> None:
    with StubModel() as model:
        model.script([{"match": {}, "replies": [{"fault": "500"}]}])
        # The breaker soon lets one call through at a time, each after a wait and a pump's round.
        waits = {"RETRY_BASE_S": "0.01", "RETRY_CAP_S": "0.02", "PUMP_S": "0.02"}
        settings = {f"AUTOGRADER_{name}": value for name, value in waits.items()}
        judges = {"m": judge_at(model.url)}
        with running(tmp_path / "home", redis.url, judges, **settings) as stack:
            with stack.client() as client:
                submit_all(client, sample_trials, run="r")
            summary = stack.wait_for("r", timeout_s=200)
    assert summary["ungraded"] == {"n": TRIALS, "by_reason": {"provider_unavailable": TRIALS}}
    assert summary["graded"]["n"] == 0
    assert summary["success_rate"] is None
