"""Submitting and reading trials over HTTP: what is taken, what is refused, what comes back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select

from grader_service.api.app import create_app
from grader_service.grading.judges import Judges
from grader_service.grading.service import Service
from grader_service.records.canonical import digest
from grader_service.records.saved import save_trial
from grader_service.records.trial import (
    Action,
    Observation,
    Scene,
    StepRecord,
    StepResult,
    TrialRecord,
)
from grader_service.storage import trials as stored_trials
from grader_service.storage.blobs import BlobStore
from grader_service.storage.database import Database
from grader_service.storage.tables import gradings, trials
from tests.api.conftest import LIMITS, post, robot


def count(database: Database, table: Any) -> int:
    with database.read() as unit:
        return int(unit.execute(select(func.count()).select_from(table)).scalar_one())


def problem(response: httpx2.Response, status: int, slug: str) -> dict[str, Any]:
    """Check that a response is a problem document of a kind, and return it."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert body["type"].endswith(f"/{slug}")
    assert body["fix"]
    return body


def record_files(*, terminated: bool = False) -> dict[str, bytes]:
    steps = [
        StepRecord(
            t=t,
            observation=Observation(),
            action=Action(np.arange(14.0) + t),
            result=StepResult(
                observation=Observation(),
                info={"distance": 1.0 / (t + 1)},
                terminated=terminated and t == 99,
                termination_reason="success" if terminated and t == 99 else None,
            ),
        )
        for t in range(100)
    ]
    record = TrialRecord(
        scene_id="pad-01",
        epoch=3,
        seed=7,
        steps=steps,
        terminated=terminated,
        termination_reason="success" if terminated else None,
    )
    return save_trial(record, Scene("pad-01", "Place the red cube on the green square."))


def test_a_submission_is_answered_with_its_state_and_where_it_is(
    api: TestClient, frame: bytes
) -> None:
    response = post(api, robot(), {"f0": frame})
    assert response.status_code == 202
    body = response.json()
    assert body["state"] == "queued"
    assert body["outcome"] is None
    assert response.headers["location"] == f"/v1/trials/{body['id']}"
    assert api.get(response.headers["location"]).json() == body


def test_the_same_submission_twice_is_one_trial(
    api: TestClient, database: Database, frame: bytes
) -> None:
    first = post(api, robot(), {"f0": frame})
    second = post(api, robot(), {"f0": frame})
    assert (first.status_code, second.status_code) == (202, 200)
    assert first.json()["id"] == second.json()["id"]
    assert count(database, trials) == count(database, gradings) == 1


@pytest.mark.parametrize(
    "changes", [{"run": "r2"}, {"epoch": 1}, {"rubric": "Is the cube on the square?"}]
)
def test_a_client_id_with_other_content_is_a_conflict(
    api: TestClient, database: Database, frame: bytes, changes: dict[str, Any]
) -> None:
    post(api, robot(), {"f0": frame})
    problem(post(api, robot(**changes), {"f0": frame}), 409, "conflict")
    assert count(database, trials) == 1


def test_an_idempotency_key_works_as_a_client_id_does(api: TestClient, frame: bytes) -> None:
    trial = robot(client_id=None)
    first = post(api, trial, {"f0": frame}, **{"Idempotency-Key": "k1"})
    second = post(api, trial, {"f0": frame}, **{"Idempotency-Key": "k1"})
    other = post(api, trial, {"f0": frame}, **{"Idempotency-Key": "k2"})
    assert first.json()["id"] == second.json()["id"] != other.json()["id"]


def test_a_client_id_and_another_idempotency_key_contradict_each_other(
    api: TestClient, frame: bytes
) -> None:
    problem(post(api, robot(), {"f0": frame}, **{"Idempotency-Key": "k"}), 409, "conflict")


@pytest.mark.parametrize(
    ("trial", "parts"),
    [
        (robot(kind="drone"), {"f0": b""}),
        (robot(frames=[{"camera": "front", "phase": "middle", "part": "f0"}]), {"f0": b""}),
        (robot(surprise=1), {}),
        (robot(run=""), {}),
        (robot(run="a\nb"), {}),
        (robot(epoch=-1), {}),
        (robot(scene={"id": "x"}), {}),
        (robot(rubric="robot/no-such-rubric"), {"f0": None}),
        (robot(rubric={"id": "x", "criteria": []}), {"f0": None}),
        (robot(rubric="a320/report"), {"f0": None}),
        (robot(judge="nobody"), {"f0": None}),
        (robot(), {}),
        (robot(), {"f0": None, "f1": None}),
        (robot(record="record"), {"f0": None}),
        (robot(record="record"), {"f0": None, "record": b"{}"}),
        (robot(record="record"), {"f0": None, "record": b"\xff"}),
        (robot(), {"f0": b"GIF89a but not really"}),
        (robot(), {"f0": b"<html>"}),
        (robot(), {"f0": b""}),
        ({"kind": "a320", "run": "r"}, {}),
        ({"kind": "a320", "run": "r"}, {"trajectory": b"\x00\x01"}),
        ({"kind": "a320", "run": "r"}, {"trajectory": b""}),
        ([], {}),
        (b"{", {}),
        (b'{"kind": "robot", "kind": "robot"}', {}),
        (b'{"kind": NaN}', {}),
        (b"[" * 100_000, {}),
        (b'{"kind": "robot", "epoch": ' + b"9" * 5000 + b"}", {}),
        (b"\xff\xfe", {}),
    ],
)  # fmt: skip
def test_bad_input_is_refused_whole_and_says_what_to_do(
    api: TestClient,
    database: Database,
    frame: bytes,
    trial: Any,
    parts: Mapping[str, bytes | None],
) -> None:
    sent = {name: frame if data is None else data for name, data in parts.items()}
    response = post(api, trial, sent)
    assert 400 <= response.status_code < 500, response.text
    body = response.json()
    assert response.headers["content-type"] == "application/problem+json"
    assert body["fix"]
    assert count(database, trials) == count(database, gradings) == 0


def test_the_same_camera_and_phase_twice_is_refused(api: TestClient, frame: bytes) -> None:
    twice = [{"camera": "front", "phase": "last", "part": part} for part in ("f0", "f1")]
    problem(post(api, robot(frames=twice), {"f0": frame, "f1": frame}), 422, "invalid-frame")


def test_a_corrupt_trajectory_line_is_named(api: TestClient, data: Path) -> None:
    lines = (data / "a320" / "g01_apu_full.jsonl").read_bytes().split(b"\n")
    lines[2] = b'{"type": '
    response = post(api, {"kind": "a320", "run": "r"}, {"trajectory": b"\n".join(lines)})
    assert "line 3" in problem(response, 422, "invalid-trajectory")["detail"]


def test_a_body_over_the_limit_is_refused_by_its_header(api: TestClient) -> None:
    response = post(api, robot(), {"f0": b"x" * (LIMITS.body_bytes + 1)})
    problem(response, 413, "too-large")


def test_a_part_over_its_limit_is_refused(api: TestClient) -> None:
    response = post(api, robot(), {"f0": b"x" * (LIMITS.part_bytes + 1)})
    problem(response, 413, "too-large")


def test_too_many_parts_are_refused(api: TestClient) -> None:
    response = post(api, robot(), {f"f{n}": b"x" for n in range(LIMITS.parts + 1)})
    problem(response, 413, "too-large")


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 415),
        ("multipart/form-data", 415),
        ("multipart/form-data; boundary=b", 400),
    ],
)
def test_a_body_that_is_no_multipart_form_is_refused(
    api: TestClient, content_type: str, status: int
) -> None:
    response = api.post(
        "/v1/trials", content=b'{"kind": "robot"}', headers={"Content-Type": content_type}
    )
    assert response.status_code == status
    assert response.json()["fix"]


def test_a_body_that_ends_too_early_is_refused(api: TestClient, database: Database) -> None:
    response = api.post(
        "/v1/trials",
        content=b'--b\r\nContent-Disposition: form-data; name="trial"\r\n\r\n{"kind"',
        headers={"Content-Type": "multipart/form-data; boundary=b"},
    )
    assert response.status_code == 400
    assert count(database, trials) == 0


def test_a_compressed_body_is_refused(api: TestClient) -> None:
    response = api.post(
        "/v1/trials",
        content=b"x",
        headers={"Content-Type": "multipart/form-data; boundary=b", "Content-Encoding": "gzip"},
    )
    problem(response, 415, "unsupported-media-type")


def test_a_full_record_is_stored_with_its_columns_and_scored(api: TestClient, frame: bytes) -> None:
    files = record_files()
    trial = robot(record="record", epoch=3)
    parts = {"record": files.pop("record.json"), **files, "f0": frame}
    assert any(name.startswith("columns/") for name in parts)
    links = post(api, trial, parts).json()["links"]
    card = api.get(links["scorecard"]).json()
    assert card["scores"]["episode_length"]["value"] == 100
    assert card["scores"]["min_distance_to_goal"]["value"] == 0.01
    assert card["epoch"] == 3
    assert card["judgement"] is None


def test_a_record_without_one_of_its_columns_is_refused(
    api: TestClient, database: Database, frame: bytes
) -> None:
    files = record_files()
    parts = {"record": files["record.json"], "f0": frame}
    problem(post(api, robot(record="record"), parts), 422, "invalid-record")
    assert count(database, trials) == 0


def test_a_definitive_termination_is_adopted_without_asking_a_judge(
    api: TestClient, frame: bytes
) -> None:
    files = record_files(terminated=True)
    parts = {"record": files.pop("record.json"), **files, "f0": frame}
    body = post(api, robot(record="record", epoch=3), parts).json()
    assert (body["state"], body["outcome"], body["verdict"]) == ("done", "graded", "success")
    assert body["source"] == "embodiment"
    card = api.get(body["links"]["scorecard"]).json()
    assert card["scores"]["operator"]["value"] is True
    assert card["judgement"]["source"] == "embodiment"


def test_a_scenes_own_rubric_beats_the_runs(
    api: TestClient, service: Service, frame: bytes
) -> None:
    scene = robot()["scene"] | {"metadata": {"rubric": "Is the gripper open?"}}
    post(api, robot(scene=scene, rubric="robot/stack"), {"f0": frame})
    with service.database.read() as unit:
        row = unit.execute(select(trials.c.rubric_digest)).one()
    with service.database.read() as unit:
        rubric = stored_trials.get_rubric(unit, row.rubric_digest)
    assert rubric is not None
    assert rubric["criteria"][0]["text"] == "Is the gripper open?"


def test_the_record_is_read_back_as_it_was_sent_with_its_frames_listed(
    api: TestClient, frame: bytes
) -> None:
    body = post(api, robot(), {"f0": frame}).json()
    record = api.get(body["links"]["record"]).json()
    assert record["schema"] == "trial-record/1"
    assert [listed["sha256"] for listed in record["frames"]] == [digest(frame)]


def test_a_frame_is_served_re_encoded_and_locked_down(api: TestClient, frame: bytes) -> None:
    trailing = frame + b"<script>alert(1)</script>"
    trial_id = post(api, robot(), {"f0": trailing}).json()["id"]
    response = api.get(f"/v1/trials/{trial_id}/frames/{digest(trailing)}")
    assert response.status_code == 200
    assert response.headers["content-type"] == "image/jpeg"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.content.startswith(b"\xff\xd8")
    assert b"<script>" not in response.content


def test_a_frame_of_another_trial_is_not_found(
    api: TestClient, frame: bytes, sample_trials: Path
) -> None:
    trial_id = post(api, robot(), {"f0": frame}).json()["id"]
    other = (sample_trials / "pad-02" / "final_front.jpg").read_bytes()
    post(api, robot(client_id="other"), {"f0": other})
    problem(api.get(f"/v1/trials/{trial_id}/frames/{digest(other)}"), 404, "not-found")


def test_the_scorecard_has_its_digest_as_etag(api: TestClient, frame: bytes) -> None:
    links = post(api, robot(), {"f0": frame}).json()["links"]
    response = api.get(links["scorecard"])
    assert response.headers["etag"] == f'"{digest(response.content)}"'
    again = api.get(links["scorecard"], headers={"If-None-Match": response.headers["etag"]})
    assert again.status_code == 304


def test_an_unknown_scorer_is_refused(api: TestClient, frame: bytes) -> None:
    links = post(api, robot(), {"f0": frame}).json()["links"]
    response = api.get(links["scorecard"], params={"scorer": "no_such"})
    assert "no_such" in problem(response, 400, "wrong-use")["detail"]


@pytest.mark.parametrize("trial_id", ["../../etc/passwd", "x", "%00", "a%0d%0ab"])
def test_an_id_that_is_no_id_is_refused(api: TestClient, trial_id: str) -> None:
    assert api.get(f"/v1/trials/{trial_id}").status_code in (404, 422)


@pytest.mark.parametrize("what", ["", "/record", "/verdicts", "/scorecard", f"/frames/{'0' * 64}"])
def test_an_unknown_trial_is_not_found(api: TestClient, what: str) -> None:
    url = f"/v1/trials/019e0000-0000-7000-8000-000000000000{what}"
    problem(api.get(url), 404, "not-found")


def test_a_listing_goes_page_by_page_through_a_run(api: TestClient, frame: bytes) -> None:
    ids = [
        post(api, robot(client_id=f"c{n}", epoch=n), {"f0": frame}).json()["id"] for n in range(5)
    ]
    post(api, robot(client_id="x", run="other"), {"f0": frame})
    seen: list[str] = []
    cursor = None
    while True:
        params = {"run": "r1", "limit": "2"} | ({"cursor": cursor} if cursor else {})
        page = api.get("/v1/trials", params=params).json()
        seen += [trial["id"] for trial in page["trials"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == ids


@pytest.mark.parametrize("query", ["state=lost", "outcome=maybe", "limit=0", "cursor=x", "what=1"])
def test_a_listing_refuses_a_filter_that_it_does_not_know(api: TestClient, query: str) -> None:
    problem(api.get(f"/v1/trials?{query}"), 422, "invalid-input")


def test_without_a_judge_trials_are_taken_and_say_what_they_wait_for(
    service: Service, frame: bytes
) -> None:
    bare = Service(service.database, service.blobs, Judges({}, None))
    with TestClient(create_app(bare, LIMITS)) as api:
        body = post(api, robot(), {"f0": frame}).json()
        assert body["waiting_for"] == "no judge configured"
        assert api.get("/v1/runs/r1").json()["waiting_for"] == "no judge configured"
        assert "no judge configured" in api.get("/readyz").json()["causes"][0]


def test_when_the_database_is_down_nothing_is_stored_and_the_client_is_told_to_come_back(
    tmp_path: Path, service: Service, blobs: BlobStore, frame: bytes
) -> None:
    # No migration ran: every statement fails as it does when the file is gone.
    broken = Service(Database(f"sqlite:///{tmp_path / 'empty.db'}"), blobs, service.judges)
    with TestClient(create_app(broken, LIMITS), raise_server_exceptions=False) as api:
        response = post(api, robot(), {"f0": frame})
        problem(response, 503, "unavailable")
        assert int(response.headers["retry-after"]) >= 1
        assert api.get("/readyz").status_code == 503
        assert api.get("/healthz").status_code == 200


def test_the_documented_schema_describes_the_submission(api: TestClient) -> None:
    schema = api.get("/openapi.json").json()
    body = schema["paths"]["/v1/trials"]["post"]["requestBody"]["content"]["multipart/form-data"]
    names = {
        option["$ref"].rpartition("/")[2]
        for option in body["schema"]["properties"]["trial"]["oneOf"]
    }
    assert names <= set(schema["components"]["schemas"])


def test_the_docs_page_needs_nothing_from_other_hosts(api: TestClient) -> None:
    page = api.get("/docs").text
    sources = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert sources
    assert all(source.startswith("/") for source in sources), sources
    assert all(api.get(source).status_code == 200 for source in sources)


def test_a_summary_of_an_unknown_run_is_not_found(api: TestClient) -> None:
    problem(api.get("/v1/runs/none"), 404, "not-found")


def test_runs_are_listed_with_their_accounts(api: TestClient, frame: bytes) -> None:
    post(api, robot(), {"f0": frame})
    [run] = api.get("/v1/runs").json()["runs"]
    assert (run["run"], run["trials"], run["pending"]["n"]) == ("r1", 1, 1)


@pytest.mark.parametrize("run", ["a/events", "a/scorecards", "a/b/aggregate"])
def test_a_run_can_not_be_called_as_a_route_of_runs_is(api: TestClient, run: str) -> None:
    problem(post(api, robot(run=run, frames=[]), {}), 422, "invalid-input")
