"""Providers that want fewer calls, or are down (real processes, real Redis): nothing is lost."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from grader_service.providers.stub import StubModel
from tests.support.judges import judge_at
from tests.support.servers import RedisServer, start_redis
from tests.support.stack import Stack, running, wait_until
from tests.support.submitting import submit_all

TRIALS = 24
CONCURRENCY = 8
GOOD = {"match": {}, "replies": [{"verdict": "success"}]}


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with start_redis(tmp_path) as server:
        yield server


@pytest.fixture
def model() -> Iterator[StubModel]:
    with StubModel() as stub:
        yield stub


def bad(fault: str) -> dict[str, Any]:
    """Return a rule by which the model `m` fails every call."""
    return {"match": {"model": "m"}, "replies": [{"fault": fault}]}


def calls(model: StubModel, name: str = "m") -> int:
    return sum(entry["model"] == name for entry in model.log)


def cause(stack: Stack, text: str) -> str | None:
    """Return what readiness says of judge `m`, if it has `text`."""
    causes = httpx2.get(f"{stack.url}/readyz").json()["causes"]
    return next((said for said in causes if said.startswith("judge m:") and text in said), None)


def assert_all_were_graded(stack: Stack, run: str) -> None:
    with stack.client() as client:
        trials = list(client.trials(run=run))
        assert [trial["outcome"] for trial in trials] == ["graded"] * TRIALS
        assert all(len(client.verdicts(trial["id"])) == 1 for trial in trials)


def test_a_rate_limit_stops_one_model_for_all_workers_and_no_other(
    tmp_path: Path, redis: RedisServer, model: StubModel, sample_trials: Path
) -> None:
    model.script([bad("429;ra=2"), GOOD])
    judges = {"m": judge_at(model.url), "other": judge_at(model.url, model="n")}
    with running(tmp_path / "home", redis.url, judges) as stack, stack.client() as client:
        stack.start_worker("w2", concurrency=CONCURRENCY)
        began = time.monotonic()
        ids = submit_all(client, sample_trials, run="limited", judge="m")
        submit_all(client, sample_trials, run="free", judge="other")
        wait_until(lambda: cause(stack, "provider paused until"), what="readiness to tell")
        stack.wait_for("free")
        assert_all_were_graded(stack, "free")
        wait_until(lambda: calls(model) > 2 * CONCURRENCY, what="more than one pause")
        told = [client.trial(trial_id)["waiting_for"] for trial_id in ids]
        assert any(text and "429" in text for text in told)
        # Each pause lets in what two workers had in flight when the first refusal came.
        pauses = 1 + (time.monotonic() - began) / 2
        assert calls(model) <= 2 * CONCURRENCY * pauses
        model.script([GOOD])
        stack.wait_for("limited")
        assert_all_were_graded(stack, "limited")
        assert cause(stack, "") is None


def test_a_provider_that_is_down_is_probed_and_everything_is_graded_when_it_is_back(
    tmp_path: Path, redis: RedisServer, model: StubModel, sample_trials: Path
) -> None:
    model.script([bad("503")])
    settings = {"AUTOGRADER_RETRY_BASE_S": "0.3"}
    judges = {"m": judge_at(model.url)}
    with running(tmp_path / "home", redis.url, judges, **settings) as stack:
        with stack.client() as client:
            began = time.monotonic()
            [first, *_] = submit_all(client, sample_trials, run="r")
            wait_until(lambda: cause(stack, "breaker open"), what="the breaker to open")
            assert "breaker open" in (client.trial(first)["waiting_for"] or "")
            opened = calls(model)
            wait_until(lambda: calls(model) >= opened + 3, what="three probes")
            lasted = time.monotonic() - began
            # The eighth fault opens it while others are in flight; then waits of 0.3, 0.6, … 4.8 s.
            probes = 1 + math.log2(1 + lasted / 0.3) + lasted / 4.8
            assert calls(model) <= 2 * CONCURRENCY + probes
        model.script([GOOD])
        stack.wait_for("r")
        assert_all_were_graded(stack, "r")
        assert cause(stack, "") is None


def test_workers_together_keep_a_models_concurrency(
    tmp_path: Path, redis: RedisServer, sample_trials: Path
) -> None:
    with StubModel(latency=0.2) as model:
        judges = {"m": judge_at(model.url, concurrency=2)}
        with running(tmp_path / "home", redis.url, judges) as stack:
            stack.start_worker("w2", concurrency=CONCURRENCY)
            with stack.client() as client:
                submit_all(client, sample_trials, run="r")
            stack.wait_for("r", done=2)
            began, before = time.monotonic(), calls(model)
            stack.wait_for("r", done=TRIALS - 4)
            made = calls(model) - before
            # Two at a time, each as long as the model takes.
            assert made <= 2 * (2 + (time.monotonic() - began) / 0.2)
            stack.wait_for("r")
            assert calls(model) == TRIALS
