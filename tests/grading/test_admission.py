"""A grading asks before it calls a provider, and waits in the queue where it may not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grader_service.api.body import Limits
from grader_service.providers.stub import StubModel
from grader_service.storage import gradings, workers
from tests.support.in_process import InProcess, in_process
from tests.support.judges import judge_at


@pytest.fixture
def model() -> Iterator[StubModel]:
    with StubModel() as model:
        yield model


@pytest.fixture
def service(tmp_path: Path, model: StubModel) -> Iterator[InProcess]:
    with in_process(tmp_path, judge_at(model.url), Limits()) as service:
        pump = service.worker.pump
        with pump.database.write() as unit:
            workers.boot(unit, node=pump.node, boot_id=pump.boot_id, judges=pump.judges)
        yield service


@pytest.fixture
def frame(sample_trials: Path) -> bytes:
    return (sample_trials / "pad-01" / "final_front.jpg").read_bytes()


def submit(service: InProcess, frame: bytes, scene: str) -> str:
    trial: dict[str, Any] = {
        "kind": "robot",
        "run": "r",
        "client_id": scene,
        "scene": {"id": "pad", "instruction": f"Do {scene}."},
        "frames": [{"camera": "front", "phase": "last", "part": "f0"}],
    }
    trial_id: str = service.submit(trial, {"f0": frame}).json()["id"]
    return trial_id


def failures(service: InProcess, trial_id: str) -> int:
    with service.service.database.read() as unit:
        row = gradings.latest_of(unit, [trial_id])[trial_id]
    return int(row.failures)


def fault(model: StubModel, name: str) -> None:
    model.script([{"match": {}, "replies": [{"fault": name}]}])


def test_after_a_rate_limit_no_trial_calls_and_none_is_to_blame(
    service: InProcess, model: StubModel, frame: bytes
) -> None:
    fault(model, "429;ra=60")
    ids = [submit(service, frame, f"scene {number}") for number in range(3)]
    service.grade()
    assert len(model.log) == 1
    found = [service.trial(trial_id) for trial_id in ids]
    assert [trial["state"] for trial in found] == ["queued"] * 3
    assert [failures(service, trial_id) for trial_id in ids] == [0] * 3
    waiting = [trial["waiting_for"] for trial in found]
    assert all("answered 429" in text for text in waiting)
    assert sum(text.startswith("provider paused until") for text in waiting) == 2


def test_a_wrong_key_costs_one_verdict_and_readiness_says_so(
    service: InProcess, model: StubModel, frame: bytes
) -> None:
    fault(model, "401")
    first = submit(service, frame, "first")
    service.grade()
    assert service.trial(first)["reason"] == "provider_auth"
    later = submit(service, frame, "later")
    assert service.worker.pump.round() == 0
    assert len(model.log) == 1
    assert "answered 401" in service.trial(later)["waiting_for"]
    ready = service.api.get("/readyz")
    assert ready.status_code == 200
    [cause] = [cause for cause in ready.json()["causes"] if "401" in cause]
    assert cause.startswith("judge main: breaker open")


def test_a_bad_request_of_one_trial_holds_no_other_up(
    service: InProcess, model: StubModel, frame: bytes
) -> None:
    bad = {"match": {"text": "Do bad."}, "replies": [{"fault": "400"}]}
    model.script([bad, {"match": {}, "replies": [{"verdict": "success"}]}])
    refused, good = submit(service, frame, "bad"), submit(service, frame, "good")
    service.grade()
    assert service.trial(refused)["reason"] == "provider_rejected"
    assert service.trial(good)["outcome"] == "graded"


def test_a_paused_provider_keeps_no_known_answer_back(
    service: InProcess, model: StubModel, frame: bytes
) -> None:
    trial: dict[str, Any] = {
        "kind": "robot",
        "run": "r",
        "scene": {"id": "pad", "instruction": "Go."},
        "frames": [{"camera": "front", "phase": "last", "part": "f0"}],
    }
    model.script([{"match": {}, "replies": [{"verdict": "success"}]}])
    service.submit(trial, {"f0": frame})
    service.grade()
    fault(model, "429;ra=60")
    submit(service, frame, "something new")
    again = service.submit(trial, {"f0": frame}).json()["id"]
    service.grade()
    assert service.trial(again)["outcome"] == "graded"
