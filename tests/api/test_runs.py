"""Runs over HTTP: the listing with its accounts, and the exports of ScoreCards and aggregates."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from grader_service.client.folders import write_files
from grader_service.grading.export import export_trial
from grader_service.grading.service import Service
from grader_service.records.manifest import MANIFEST_PATH
from tests.api.conftest import post, robot
from tests.support.stack import AUTOGRADER, ROOT

# The last of them was cut short by its provider.
COCKPIT = [
    *sorted((ROOT / "examples" / "a320").glob("*.jsonl")),
    ROOT / "tests" / "data" / "a320" / "g22_apu_provider_error.jsonl",
]


def submit(api: TestClient, run: str, *, client_id: str | None = None) -> str:
    response = post(api, robot(run=run, client_id=client_id, frames=[]), {})
    assert response.status_code == 202, response.text
    trial_id: str = response.json()["id"]
    return trial_id


def submit_cockpit(api: TestClient, run: str) -> list[str]:
    trial = {"kind": "a320", "run": run}
    return [post(api, trial, {"trajectory": path.read_bytes()}).json()["id"] for path in COCKPIT]


def test_runs_come_page_by_page_the_newest_first_each_once(api: TestClient) -> None:
    names = [f"run-{number}" for number in range(5)]
    for name in names:
        submit(api, name)
    # One that goes on keeps its place: it began when it began.
    submit(api, "run-0")
    seen, cursor = [], None
    while True:
        params = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
        page = api.get("/v1/runs", params=params).json()
        seen += page["runs"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert [run["run"] for run in seen] == names[::-1]
    assert seen[-1]["trials"] == 2
    assert seen[-1]["first_submitted_at"] < seen[-1]["last_submitted_at"]


def test_a_listed_run_is_its_summary(api: TestClient) -> None:
    submit(api, "r")
    [listed] = api.get("/v1/runs").json()["runs"]
    summary = api.get("/v1/runs/r").json()
    assert summary.items() <= listed.items()
    assert {"graded", "abstained", "ungraded", "pending"} <= summary.keys()


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "cursor=x", "what=1"])
def test_the_listing_of_runs_refuses_what_it_does_not_know(api: TestClient, query: str) -> None:
    assert api.get(f"/v1/runs?{query}").status_code == 422


def test_the_scorecards_of_a_run_are_the_bytes_of_each_trials_own(api: TestClient) -> None:
    # More than are read at a time.
    ids = [submit(api, "r") for _ in range(101)] + submit_cockpit(api, "r")
    response = api.get("/v1/runs/r/scorecards")
    assert response.headers["content-type"].startswith("application/x-ndjson")
    cards = [api.get(f"/v1/trials/{trial_id}/scorecard").content for trial_id in ids]
    assert response.content == b"".join(cards)
    assert response.content.count(b"\n") == len(ids)


def test_the_scorecards_of_a_run_are_those_of_the_scorers_that_are_named(api: TestClient) -> None:
    submit(api, "r")
    card = json.loads(api.get("/v1/runs/r/scorecards?scorer=episode_length").content)
    assert card["scores"].keys() == {"episode_length"}
    unknown = api.get("/v1/runs/r/scorecards?scorer=luck")
    assert unknown.status_code == 400
    assert "luck" in unknown.json()["detail"]


def test_the_aggregate_of_a_run_is_what_the_command_line_makes_of_its_files(
    api: TestClient,
) -> None:
    submit(api, "r")
    submit_cockpit(api, "r")
    scored = {}
    for query, options in (("", []), ("?include_errors=true", ["--include-errors"])):
        done = subprocess.run(
            [*AUTOGRADER, "score", "--aggregate", "--json", *options, *map(str, COCKPIT)],
            capture_output=True,
            check=True,
        )
        expected = json.loads(done.stdout)["aggregate"]
        assert api.get(f"/v1/runs/r/aggregate{query}").json() == {"aggregate": expected}
        scored[query] = sum(row["n_scored"] for row in expected)
    assert scored == {"": 3, "?include_errors=true": 4}


def test_a_run_of_robots_has_an_empty_aggregate(api: TestClient) -> None:
    submit(api, "r")
    assert api.get("/v1/runs/r/aggregate").json() == {"aggregate": []}


@pytest.mark.parametrize("route", ["", "/scorecards", "/aggregate", "/events"])
def test_every_route_of_a_run_says_when_there_is_none(api: TestClient, route: str) -> None:
    response = api.get(f"/v1/runs/none{route}")
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"
    assert "none" in response.json()["detail"]


def test_a_trial_can_be_found_by_its_client_id(api: TestClient) -> None:
    submit(api, "r", client_id="other")
    trial_id = submit(api, "r", client_id="mine/1")
    found = api.get("/v1/trials", params={"client_id": "mine/1"}).json()
    assert [trial["id"] for trial in found["trials"]] == [trial_id]
    assert found["next_cursor"] is None
    assert api.get("/v1/trials", params={"client_id": "mine"}).json()["trials"] == []


def test_the_files_of_a_trial_are_those_of_its_export_the_manifest_last(
    api: TestClient, service: Service, frame: bytes, tmp_path: Path
) -> None:
    trial_id = post(api, robot(), {"f0": frame}).json()["id"]
    response = api.get(f"/v1/trials/{trial_id}/files")
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["content-disposition"].startswith("attachment")
    with tarfile.open(fileobj=io.BytesIO(response.content)) as archive:
        names = archive.getnames()
        # The argument `filter` is younger than some 3.11.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path / "tar")  # noqa: S202  (of our own making)
    assert names[-1] == MANIFEST_PATH
    exported = export_trial(service, trial_id)
    assert names == list(exported)
    for name, data in exported.items():
        assert (tmp_path / "tar" / name).read_bytes() == data
    assert write_files(tmp_path / "own", exported) == tmp_path / "own"
    assert api.get(f"/v1/trials/{'0' * 32}/files").status_code == 404
