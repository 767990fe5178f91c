"""More verdicts of a trial over HTTP: another round of grading, and what a person says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

from grader_service.api.body import Limits
from grader_service.providers.stub import StubModel
from grader_service.records.canonical import digest_of
from grader_service.records.saved import save_trial
from grader_service.records.trial import (
    Action,
    Observation,
    Scene,
    StepRecord,
    StepResult,
    TrialRecord,
)
from tests.support.in_process import InProcess, in_process
from tests.support.judges import judge_at

UNKNOWN = "019e0000-0000-7000-8000-000000000000"


@pytest.fixture
def model() -> Iterator[StubModel]:
    with StubModel() as model:
        model.script(
            [
                {"match": {"model": "second"}, "replies": [{"verdict": "failure"}]},
                {"match": {}, "replies": [{"verdict": "success"}]},
            ]
        )
        yield model


@pytest.fixture
def service(tmp_path: Path, model: StubModel) -> Iterator[InProcess]:
    main, second = judge_at(model.url), judge_at(model.url, model="second")
    with in_process(tmp_path, main, Limits(json_bytes=50_000), second=second) as service:
        yield service


@pytest.fixture
def frame(sample_trials: Path) -> bytes:
    return (sample_trials / "pad-01" / "final_front.jpg").read_bytes()


def submit(service: InProcess, frame: bytes, **changes: Any) -> str:
    """Submit a trial with one last frame; return its id."""
    trial = {
        "kind": "robot",
        "run": "r",
        "scene": {"id": "pad-01", "instruction": "Place the cube."},
        "frames": [{"camera": "front", "phase": "last", "part": "f0"}],
    }
    response = service.submit(trial | changes, {"f0": frame})
    assert response.status_code == 202, response.text
    return str(response.json()["id"])


def again(service: InProcess, trial_id: str, **asked: Any) -> httpx2.Response:
    response: httpx2.Response = service.api.post(f"/v1/trials/{trial_id}/gradings", json=asked)
    return response


def say(service: InProcess, trial_id: str, verdict: str, **more: Any) -> httpx2.Response:
    said = {"verdict": verdict, "note": "I saw it.", "reviewer": "ana"} | more
    response: httpx2.Response = service.api.post(f"/v1/trials/{trial_id}/verdicts", json=said)
    return response


def verdicts(service: InProcess, trial_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = service.api.get(f"/v1/trials/{trial_id}/verdicts").json()
    return found


def problem(response: httpx2.Response, status: int, slug: str) -> str:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body["type"].endswith(f"/{slug}")
    assert body["fix"]
    return str(body["detail"])


# --- another round -------------------------------------------------------------------------------


def test_another_judge_grades_the_trial_once_more_and_its_verdict_counts(
    service: InProcess, frame: bytes
) -> None:
    trial_id = submit(service, frame)
    service.grade()
    response = again(service, trial_id, judge="second")
    assert response.status_code == 202
    body = response.json()
    assert (body["trial"], body["round"], body["judge"]) == (trial_id, 1, "second")
    waiting = service.trial(trial_id)
    assert (waiting["state"], waiting["verdict"]) == ("queued", "success")
    service.grade()
    first, second = verdicts(service, trial_id)
    assert [(v["verdict"], v["effective"]) for v in (first, second)] == [
        ("success", False),
        ("failure", True),
    ]
    assert second["receipt"]["previous_receipt"] == digest_of(first["receipt"])
    assert service.trial(trial_id)["verdict"] == "failure"


def test_another_rubric_is_used_for_that_round_and_stands_in_its_receipt(
    service: InProcess, frame: bytes
) -> None:
    trial_id = submit(service, frame)
    service.grade()
    response = again(service, trial_id, rubric="Is the gripper open?")
    service.grade()
    receipt = service.receipt(trial_id)
    assert receipt["rubric"]["digest"] == response.json()["rubric_digest"]
    assert receipt["rubric"]["text"]["expectation"] == "Is the gripper open?"
    assert receipt["reused_from"] is None


def test_an_outage_in_a_later_round_displaces_no_verdict(
    service: InProcess, model: StubModel, frame: bytes
) -> None:
    trial_id = submit(service, frame)
    service.grade()
    model.script([{"match": {}, "replies": [{"fault": "404"}]}])
    again(service, trial_id, fresh=True)
    service.grade()
    assert [v["outcome"] for v in verdicts(service, trial_id)] == ["graded", "ungraded"]
    assert service.trial(trial_id)["verdict"] == "success"


def test_while_a_round_has_not_ended_there_is_no_next_one(service: InProcess, frame: bytes) -> None:
    trial_id = submit(service, frame)
    assert "round 0" in problem(again(service, trial_id), 409, "conflict")
    service.grade()
    assert again(service, trial_id).status_code == 202
    assert "round 1" in problem(again(service, trial_id), 409, "conflict")


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"judge": "nobody"}, 422),
        ({"rubric": "robot/no-such-rubric"}, 422),
        ({"rubric": "a320/report"}, 422),
        ({"rubric": {"criteria": []}}, 422),
        ({"fresh": "perhaps"}, 422),
        ({"surprise": 1}, 422),
        ({"judge": ""}, 422),
        ([], 422),
        ({"rubric": "x" * 60_000}, 413),
    ],
)
def test_a_round_that_can_not_be_asked_for_is_refused_and_changes_nothing(
    service: InProcess, frame: bytes, asked: Any, status: int
) -> None:
    trial_id = submit(service, frame)
    service.grade()
    response = service.api.post(f"/v1/trials/{trial_id}/gradings", json=asked)
    assert response.status_code == status, response.text
    assert response.json()["fix"]
    assert service.trial(trial_id)["state"] == "done"


@pytest.mark.parametrize("what", ["gradings", "verdicts"])
@pytest.mark.parametrize(
    "body", [b"", b'{"verdict": "success", "verdict": "failure"}', b"[" * 1000, b"\xff"]
)
def test_a_body_that_is_no_json_is_refused(service: InProcess, what: str, body: bytes) -> None:
    url, headers = f"/v1/trials/{UNKNOWN}/{what}", {"Content-Type": "application/json"}
    problem(service.api.post(url, content=body, headers=headers), 422, "invalid-input")
    problem(service.api.post(url, content=b"{}"), 415, "unsupported-media-type")


def test_nothing_is_added_to_a_trial_that_is_not_there(service: InProcess) -> None:
    problem(again(service, UNKNOWN), 404, "not-found")
    problem(say(service, UNKNOWN, "success"), 404, "not-found")


def test_a_verdict_that_came_with_the_record_counts_beside_a_later_round(
    service: InProcess, frame: bytes
) -> None:
    trial_id = submit_ended(service, frame)
    assert again(service, trial_id, judge="second").status_code == 202
    service.grade()
    assert [v["source"] for v in verdicts(service, trial_id)] == ["embodiment", "stub"]
    assert service.trial(trial_id)["source"] == "embodiment"


# --- a person ------------------------------------------------------------------------------------


def submit_ended(service: InProcess, frame: bytes) -> str:
    """Submit a trial whose embodiment says that it succeeded."""
    step = StepRecord(
        t=0,
        observation=Observation(),
        action=Action(np.zeros(1)),
        result=StepResult(Observation(), terminated=True, termination_reason="success"),
    )
    record = TrialRecord(
        *("pad-01", 0, None), steps=[step], terminated=True, termination_reason="success"
    )
    files = save_trial(record, Scene("pad-01", "Place the cube."))
    trial = {
        "kind": "robot",
        "run": "r",
        "scene": {"id": "pad-01", "instruction": "Place the cube."},
        "frames": [{"camera": "front", "phase": "last", "part": "f0"}],
        "record": "record",
    }
    parts = {"record": files.pop("record.json"), **files, "f0": frame}
    return str(service.submit(trial, parts).json()["id"])


def test_what_a_person_says_counts_and_says_who_and_why(service: InProcess, frame: bytes) -> None:
    trial_id = submit(service, frame)
    service.grade()
    response = say(service, trial_id, "failure", note="The gripper holds it.")
    assert response.status_code == 201
    assert response.json()["effective"] is True
    trial = service.trial(trial_id)
    assert (trial["verdict"], trial["source"]) == ("failure", "human")
    assert trial["note"] == "The gripper holds it."
    card = json.loads(service.api.get(f"/v1/trials/{trial_id}/scorecard").content)
    assert card["judgement"]["source"] == "human"
    assert [v["by"] for v in verdicts(service, trial_id)] == ["main", "ana"]
    assert trial["needs_review"] is False


def test_the_newest_person_counts_and_no_judge_after_it(service: InProcess, frame: bytes) -> None:
    trial_id = submit(service, frame)
    say(service, trial_id, "failure")
    say(service, trial_id, "abstain", reviewer="ben", note=None)
    service.grade()
    trial = service.trial(trial_id)
    assert (trial["outcome"], trial["reason"]) == ("abstained", "judge_abstained")
    assert trial["source"] == "human"
    assert [v["effective"] for v in verdicts(service, trial_id)] == [False, True, False]


@pytest.mark.parametrize(
    ("verdict", "review"), [("failure", True), ("success", False), ("abstain", False)]
)
def test_a_person_who_contradicts_the_embodiment_has_the_trial_reviewed(
    service: InProcess, frame: bytes, verdict: str, review: bool
) -> None:
    trial_id = submit_ended(service, frame)
    assert say(service, trial_id, verdict).json()["effective"] is False
    trial = service.trial(trial_id)
    assert (trial["source"], trial["needs_review"]) == ("embodiment", review)
    listed = service.api.get("/v1/trials", params={"needs_review": True}).json()["trials"]
    assert [found["id"] for found in listed] == ([trial_id] if review else [])


@pytest.mark.parametrize(
    "said",
    [
        {"verdict": "maybe", "reviewer": "ana"},
        {"verdict": None, "reviewer": "ana"},
        {"verdict": "success"},
        {"verdict": "success", "reviewer": ""},
        {"verdict": "success", "reviewer": "a\nb"},
        {"verdict": "success", "reviewer": "ana", "note": "x" * 20_001},
        {"verdict": "success", "reviewer": "ana", "source": "embodiment"},
    ],
)
def test_what_no_person_can_say_is_refused(
    service: InProcess, frame: bytes, said: dict[str, Any]
) -> None:
    trial_id = submit(service, frame)
    problem(service.api.post(f"/v1/trials/{trial_id}/verdicts", json=said), 422, "invalid-input")
    assert verdicts(service, trial_id) == []


# --- reuse ---------------------------------------------------------------------------------------


def test_the_same_question_is_not_asked_twice(
    service: InProcess, model: StubModel, frame: bytes
) -> None:
    first = submit(service, frame, run="a")
    service.grade()
    second = submit(service, frame, run="b")
    third = submit(service, frame, run="c")
    service.grade()
    assert len(model.log) == 1
    source = service.receipt(first)
    assert source["reused_from"] is None
    for trial_id in (second, third):
        receipt = service.receipt(trial_id)
        # Always the receipt of the one that was asked, never one that took it over.
        assert receipt["reused_from"] == digest_of(source)
        assert (receipt["trial"], receipt["previous_receipt"]) == (trial_id, None)
        assert (receipt["usage"], receipt["cost"]) == (None, None)
        assert receipt["token"] == source["token"]
        [verdict] = verdicts(service, trial_id)
        assert (verdict["source"], verdict["verdict"], verdict["by"]) == ("stub", "success", "main")
    assert service.api.get("/v1/runs/b").json()["usage"]["input_tokens"] == 0


def test_an_abstention_is_taken_over_as_well(
    service: InProcess, model: StubModel, frame: bytes
) -> None:
    model.script([{"match": {}, "replies": [{"verdict": "abstain"}]}])
    submit(service, frame)
    service.grade()
    trial_id = submit(service, frame)
    service.grade()
    assert len(model.log) == 1
    assert service.trial(trial_id)["outcome"] == "abstained"


def test_what_was_ungraded_is_asked_again(
    service: InProcess, model: StubModel, frame: bytes
) -> None:
    model.script([{"match": {}, "replies": [{"fault": "refusal"}, {"verdict": "success"}]}])
    trial_id = submit(service, frame)
    service.grade()
    again(service, trial_id)
    service.grade()
    assert [v["reason"] or v["verdict"] for v in verdicts(service, trial_id)] == [
        "judge_refused",
        "success",
    ]
    assert len(model.log) == 2


@pytest.mark.parametrize("how", ["submitted", "regraded"])
def test_fresh_asks_again(service: InProcess, model: StubModel, frame: bytes, how: str) -> None:
    trial_id = submit(service, frame)
    service.grade()
    if how == "submitted":
        trial_id = submit(service, frame, fresh=True)
    else:
        again(service, trial_id, fresh=True)
    service.grade()
    assert len(model.log) == 2
    assert service.receipt(trial_id)["reused_from"] is None


@pytest.mark.parametrize(
    "changes",
    [
        {"judge": "second"},
        {"rubric": "Is the gripper open?"},
        {"epoch": 1},
        {"scene": {"id": "pad-02", "instruction": "Place the cube."}},
        {"scene": {"id": "pad-01", "instruction": "Drop the cube."}},
        {"frames": [{"camera": "top", "phase": "last", "part": "f0"}]},
        {"frames": [{"camera": "front", "phase": "parked", "part": "f0"}]},
    ],
)
def test_another_question_is_asked(
    service: InProcess, model: StubModel, frame: bytes, changes: dict[str, Any]
) -> None:
    submit(service, frame)
    service.grade()
    trial_id = submit(service, frame, **changes)
    service.grade()
    assert len(model.log) == 2
    assert service.receipt(trial_id)["reused_from"] is None


def test_another_picture_is_another_question(
    service: InProcess, model: StubModel, frame: bytes
) -> None:
    submit(service, frame)
    service.grade()
    submit(service, frame + b"\x00")
    service.grade()
    assert len(model.log) == 2


def test_no_tenant_gets_the_answer_to_anothers_question(
    service: InProcess, model: StubModel, frame: bytes
) -> None:
    submit(service, frame)
    service.grade()
    service.api.app.state.service = replace(service.service, tenant="other")  # type: ignore[attr-defined]
    trial_id = submit(service, frame)
    service.grade()
    assert len(model.log) == 2
    assert service.receipt(trial_id)["reused_from"] is None


def test_what_a_stub_said_is_no_answer_of_a_real_judge(
    tmp_path: Path, model: StubModel, frame: bytes
) -> None:
    real = judge_at(model.url, stub=False)
    with in_process(tmp_path, judge_at(model.url), Limits(), real=real) as service:
        submit(service, frame)
        service.grade()
        trial_id = submit(service, frame, judge="real")
        service.grade()
        assert len(model.log) == 2
        assert service.trial(trial_id)["source"] == "vlm"


def test_a_run_without_anything_to_judge_is_decided_by_itself(
    service: InProcess, model: StubModel, data: Path
) -> None:
    trajectory = b'{"type": "harness_error", "stage": "setup", "error": "E"}\n'
    for name in ("a", "b"):
        service.submit({"kind": "a320", "run": "r", "client_id": name}, {"trajectory": trajectory})
        service.grade()
    for trial in service.api.get("/v1/trials").json()["trials"]:
        assert trial["reason"] == "nothing_to_judge"
        assert service.receipt(trial["id"])["reused_from"] is None
    assert model.log == []


def test_a_cockpit_run_is_not_judged_twice(
    service: InProcess, model: StubModel, sample_trials: Path
) -> None:
    trajectory = (sample_trials.parent / "a320" / "g01_apu_full.jsonl").read_bytes()
    for name in ("a", "b"):
        service.submit({"kind": "a320", "run": "r", "client_id": name}, {"trajectory": trajectory})
        service.grade()
    assert len(model.log) == 1


def test_the_routes_are_documented_with_their_bodies(service: InProcess) -> None:
    paths = service.api.get("/openapi.json").json()["paths"]
    for path, key in (("gradings", "judge"), ("verdicts", "reviewer")):
        route = paths[f"/v1/trials/{{trial_id}}/{path}"]["post"]
        schema = route["requestBody"]["content"]["application/json"]["schema"]
        assert key in schema["properties"]
