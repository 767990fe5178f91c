"""The queue over HTTP: what waits, runs and died, and what may be done about it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grader_service.api.body import Limits
from grader_service.providers.stub import StubModel
from grader_service.storage import workers
from tests.support.in_process import InProcess, in_process
from tests.support.judges import judge_at

OUTAGE = [{"match": {}, "replies": [{"fault": "500"}]}]


@pytest.fixture
def model() -> Iterator[StubModel]:
    with StubModel(script=[{"match": {}, "replies": [{"verdict": "success"}]}]) as model:
        yield model


@pytest.fixture
def service(tmp_path: Path, model: StubModel) -> Iterator[InProcess]:
    judge = judge_at(model.url, stub=False)
    with in_process(tmp_path, judge, Limits(json_bytes=50_000)) as service:
        yield service


@pytest.fixture
def frame(sample_trials: Path) -> bytes:
    return (sample_trials / "pad-01" / "final_front.jpg").read_bytes()


def submit(service: InProcess, frame: bytes, *, number: int = 0, **changes: Any) -> str:
    trial = {
        "kind": "robot",
        "run": "r",
        "scene": {"id": f"scene-{number}", "instruction": f"Place cube {number}."},
        "frames": [{"camera": "front", "phase": "last", "part": "f0"}],
    } | changes
    response = service.submit(trial, {"f0": frame})
    assert response.status_code == 202, response.text
    return str(response.json()["id"])


def post(service: InProcess, what: str, **asked: Any) -> Any:
    return service.api.post(f"/v1/queue/{what}", json=asked)


def die(service: InProcess, model: StubModel) -> None:
    """Have what is due fail until its failures are spent."""
    model.script(OUTAGE)
    for _ in range(6):
        with service.worker.grader.database.write() as unit:
            unit.connection.exec_driver_sql("UPDATE gradings SET not_before = 0")
        service.grade()
    model.script([{"match": {}, "replies": [{"verdict": "success"}]}])


def judge_in(queue: dict[str, Any]) -> dict[str, Any]:
    [judge] = queue["judges"]
    assert isinstance(judge, dict)
    return judge


def test_an_empty_queue_is_empty(service: InProcess) -> None:
    assert service.api.get("/v1/queue").json() == {"judges": [], "workers": []}


def test_what_waits_is_shown_judge_by_judge(service: InProcess, frame: bytes) -> None:
    for number in range(3):
        submit(service, frame, number=number)
    judge = judge_in(service.api.get("/v1/queue").json())
    assert judge.pop("oldest_s") >= 0
    assert judge == {
        "judge": "main",
        "depth": 3,
        "due": 3,
        "in_flight": 0,
        "waiting": {"n": 0, "newest_error": None},
        "dead": {"n": 0, "by_reason": {}},
        "paused": None,
    }


def test_what_waits_after_a_fault_shows_the_newest_error(
    service: InProcess, model: StubModel, frame: bytes
) -> None:
    submit(service, frame)
    model.script(OUTAGE)
    service.grade()
    judge = judge_in(service.api.get("/v1/queue").json())
    assert (judge["depth"], judge["waiting"]["n"]) == (1, 1)
    assert "500" in judge["waiting"]["newest_error"]


def test_workers_are_shown_with_their_age(service: InProcess) -> None:
    with service.worker.grader.database.write() as unit:
        workers.boot(unit, node="w1", boot_id="b1", judges=["main"])
    [worker] = service.api.get("/v1/queue").json()["workers"]
    assert 0 <= worker.pop("age_s") < 60
    assert worker == {"worker": "w1", "in_flight": 0, "stuck": False, "trouble": None}


def test_dead_trials_are_counted_and_retried_with_all_that_they_had(
    service: InProcess, model: StubModel, frame: bytes
) -> None:
    trial_id = submit(service, frame)
    die(service, model)
    assert judge_in(service.api.get("/v1/queue").json())["dead"] == {
        "n": 1,
        "by_reason": {"provider_unavailable": 1},
    }
    assert post(service, "retry", run="r").json() == {"retried": 1}
    assert post(service, "retry").json() == {"retried": 0}
    service.grade()
    trial = service.trial(trial_id)
    assert (trial["state"], trial["verdict"]) == ("done", "success")
    assert len(service.api.get(f"/v1/trials/{trial_id}/verdicts").json()) == 2
    assert service.api.get("/v1/queue").json()["judges"] == []


def test_other_reasons_are_retried_when_they_are_named(
    service: InProcess, model: StubModel, frame: bytes
) -> None:
    submit(service, frame)
    model.script([{"match": {}, "replies": [{"fault": "401"}]}])
    service.grade()
    assert post(service, "retry").json() == {"retried": 0}
    assert post(service, "retry", reasons=["provider_auth"]).json() == {"retried": 1}


def test_cancelled_trials_leave_the_accounts_and_come_back_by_a_retry(
    service: InProcess, frame: bytes
) -> None:
    first = submit(service, frame, number=1)
    second = submit(service, frame, number=2)
    assert post(service, "cancel", trials=[first]).json() == {"cancelled": 1}
    assert service.trial(first)["state"] == "cancelled"
    service.grade()
    summary = service.api.get("/v1/runs/r").json()
    assert (summary["trials"], summary["gradable"], summary["cancelled"]) == (1, 1, 1)
    assert (summary["graded"]["n"], summary["pending"]["n"]) == (1, 0)
    assert service.trial(second)["verdict"] == "success"
    assert post(service, "retry", reasons=["cancelled"]).json() == {"retried": 1}
    service.grade()
    summary = service.api.get("/v1/runs/r").json()
    assert (summary["trials"], summary["cancelled"], summary["graded"]["n"]) == (2, 0, 2)


def test_a_dead_trial_whose_retry_was_cancelled_is_in_no_account(
    service: InProcess, model: StubModel, frame: bytes
) -> None:
    submit(service, frame)
    die(service, model)
    post(service, "retry")
    post(service, "cancel", run="r")
    summary = service.api.get("/v1/runs/r").json()
    assert (summary["trials"], summary["cancelled"]) == (0, 1)
    assert summary["ungraded"] == {"n": 0, "by_reason": {}}
    assert summary["stub"] is False


def test_cancelling_a_run_leaves_others_and_what_has_ended(
    service: InProcess, frame: bytes
) -> None:
    graded = submit(service, frame, number=1)
    service.grade()
    submit(service, frame, number=2)
    other = submit(service, frame, number=3, run="other")
    assert post(service, "cancel", run="r").json() == {"cancelled": 1}
    assert service.trial(graded)["verdict"] == "success"
    assert service.trial(other)["state"] == "queued"


@pytest.mark.parametrize(
    ("what", "asked", "status"),
    [
        ("retry", {"reasons": ["bad luck"]}, 422),
        ("retry", {"run": "no such run"}, 404),
        ("retry", {"runs": "r"}, 422),
        ("cancel", {}, 422),
        ("cancel", {"run": "r", "trials": ["019e0000-0000-7000-8000-000000000000"]}, 422),
        ("cancel", {"trials": ["no id"]}, 422),
        ("cancel", {"trials": ["019e0000-0000-7000-8000-000000000000"]}, 404),
        ("cancel", {"run": "no such run"}, 404),
    ],
)
def test_a_wrong_request_is_refused_with_what_to_do(
    service: InProcess, what: str, asked: dict[str, Any], status: int
) -> None:
    response = post(service, what, **asked)
    assert response.status_code == status
    assert response.json()["fix"]


def test_of_two_unknown_trials_and_a_known_one_none_is_cancelled(
    service: InProcess, frame: bytes
) -> None:
    known = submit(service, frame)
    unknown = "019e0000-0000-7000-8000-000000000000"
    assert post(service, "cancel", trials=[known, unknown]).status_code == 404
    assert service.trial(known)["state"] == "queued"


@pytest.mark.parametrize("priority", [11, -11, 1.5, "high", True])
def test_a_priority_out_of_range_is_refused(
    service: InProcess, frame: bytes, priority: object
) -> None:
    trial = {
        "kind": "robot",
        "run": "r",
        "priority": priority,
        "scene": {"id": "s", "instruction": "Go."},
        "frames": [{"camera": "front", "phase": "last", "part": "f0"}],
    }
    assert service.submit(trial, {"f0": frame}).status_code == 422


def test_a_higher_priority_is_judged_first(
    service: InProcess, model: StubModel, frame: bytes
) -> None:
    for number, priority in enumerate([0, -10, 10]):
        submit(service, frame, number=number, priority=priority)
    service.grade()
    asked = [next(t for t in call["texts"] if "Place cube" in t) for call in model.log]
    assert [text[text.index("Place cube") + 11] for text in asked] == ["2", "0", "1"]
