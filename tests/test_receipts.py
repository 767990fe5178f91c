"""Receipts of a whole service: grade again, parse again, export, verify (real processes)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grader_service.client.http import Client
from grader_service.client.types import Graded
from grader_service.providers.stub import StubModel
from tests.support.judges import judge_at
from tests.support.stack import AUTOGRADER, Stack, running, wait_until
from tests.support.submitting import submit_all

TRIALS = 24


@pytest.fixture
def model() -> Iterator[StubModel]:
    with StubModel() as model:
        model.script(
            [
                {"match": {"model": "second"}, "replies": [{"verdict": "failure"}]},
                {"match": {}, "replies": [{"fault": "refusal"}, {"verdict": "success"}]},
            ]
        )
        yield model


@pytest.fixture
def stack(tmp_path: Path, redis_url: str, model: StubModel) -> Iterator[Stack]:
    judges = {"main": judge_at(model.url), "second": judge_at(model.url, model="second")}
    with running(tmp_path / "home", redis_url, judges) as stack:
        yield stack


def autograder(stack: Stack, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*AUTOGRADER, *arguments],
        env=stack.environment | {"AUTOGRADER_URL": stack.url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def regrade(stack: Stack, *arguments: str) -> int:
    """Regrade the run, wait for its end and return how many trials were graded again."""
    done = autograder(stack, "regrade", "r", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["unfinished"] == 0
    assert report["errors"] == []
    with stack.client() as client:
        wait_until(lambda: all_ended(client), what="the next round")
    return len(report["gradings"])


def all_ended(client: Client) -> bool:
    return all(trial["state"] == "done" for trial in client.trials(run="r"))


def graded(stack: Stack) -> Graded:
    with stack.client() as client:
        return client.run("r")["graded"]


def test_a_run_is_graded_again_and_every_receipt_of_it_is_verified(
    stack: Stack, model: StubModel, sample_trials: Path, tmp_path: Path
) -> None:
    with stack.client() as client:
        submit_all(client, sample_trials, run="r")
    stack.wait_for("r")
    assert graded(stack) == {"n": TRIALS - 1, "success": TRIALS - 1, "failure": 0}

    assert regrade(stack) == 1, "the ungraded one"
    assert graded(stack)["success"] == TRIALS
    assert regrade(stack, "--only", "abstained") == 0

    calls = len(model.log)
    assert regrade(stack, "--only", "all") == TRIALS
    assert len(model.log) == calls, "the same question is not asked twice"
    assert regrade(stack, "--only", "all", "--fresh") == TRIALS
    assert len(model.log) == calls + TRIALS
    assert regrade(stack, "--only", "all", "--judge", "second") == TRIALS
    assert graded(stack)["failure"] == TRIALS

    assert autograder(stack, "regrade", "r", "--only", "all", "--judge", "nobody").returncode == 2
    assert autograder(stack, "regrade", "none").returncode == 2
    assert autograder(stack, "regrade", "r", "--url", "http://127.0.0.1:9").returncode == 3

    calls = len(model.log)
    for fresh, asked in (((), 0), (("--fresh",), TRIALS)):
        run = ("--run", f"again {asked}", *fresh, "--wait")
        assert autograder(stack, "submit", str(sample_trials), *run).returncode == 0
        assert len(model.log) == calls + asked

    receipts = 4 * TRIALS + 1
    parsed = autograder(stack, "reparse", "--run", "r", "--json")
    assert parsed.returncode == 0, parsed.stderr
    assert len(json.loads(parsed.stdout)["receipts"]) == receipts

    assert autograder(stack, "export", "r", "-o", str(tmp_path / "x")).returncode == 0
    verified = autograder(stack, "verify", str(tmp_path / "x"), "--json")
    assert verified.returncode == 0, verified.stdout
    report = json.loads(verified.stdout)
    assert (report["trials"], report["receipts"]) == (TRIALS, receipts)
