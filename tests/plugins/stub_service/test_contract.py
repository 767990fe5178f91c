"""The stub service answers as the real one does: the same calls to both, and nothing may differ."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

from grader_service.api.app import create_app
from grader_service.api.body import Limits
from grader_service.client.http import Client
from grader_service.plugins.stub_service import StubService
from grader_service.providers.stub import StubModel
from grader_service.records.saved import save_trial
from grader_service.records.trial import Action, Observation, Scene, StepRecord, StepResult
from grader_service.records.trial import TrialRecord as Record
from tests.client.conftest import serving
from tests.support.in_process import in_process
from tests.support.judges import judge_at

ROOT = Path(__file__).parents[3]
FIRST = (ROOT / "examples/trials/pad-01/initial_front.jpg").read_bytes()
LAST = (ROOT / "examples/trials/pad-01/final_front.jpg").read_bytes()
COCKPIT = (ROOT / "examples/a320/g01_apu_full.jsonl").read_bytes()


@dataclass
class Side:
    """One of the two services; `grade` lets what was submitted have its verdict."""

    http: httpx2.Client
    grade: Callable[[], None]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    with StubModel() as model:
        model.script(
            [
                {"match": {"text": "Abstain"}, "replies": [{"verdict": "abstain"}]},
                {"match": {"text": "Lock out"}, "replies": [{"fault": "404"}]},
                {"match": {}, "replies": [{"verdict": "success"}]},
            ]
        )
        judge = judge_at(model.url, stub=False)
        with (
            in_process(tmp_path_factory.mktemp("home"), judge, Limits()) as service,
            serving(create_app(service.service, Limits())) as url,
            httpx2.Client(base_url=url) as http,
        ):
            yield Side(http, service.grade)


@pytest.fixture(scope="module")
def stub() -> Iterator[Side]:
    with StubService() as service, httpx2.Client(base_url=service.url) as http:
        service.script("abstained: criteria_unclear", scene="abstained")
        service.script("ungraded: provider_rejected", scene="locked out")
        service.hold()

        def grade() -> None:
            service.release()
            service.hold()

        yield Side(http, grade)


@pytest.fixture
def both(real: Side, stub: Side) -> tuple[Side, Side]:
    return real, stub


def post(
    side: Side,
    parts: Mapping[str, bytes] = {},
    *,
    raw: bytes | None = None,
    headers: Mapping[str, str] = {},
    **changes: Any,
) -> httpx2.Response:
    """Submit a robot trial with changes to its part `trial`."""
    trial = {
        "kind": "robot",
        "run": "r",
        "scene": {"id": "s", "instruction": "Do it."},
        "frames": [{"camera": "front", "phase": name, "part": name} for name in ("first", "last")],
    } | changes
    trial = {name: value for name, value in trial.items() if value is not ...}
    files: dict[str, Any] = {"trial": (None, raw if raw is not None else json.dumps(trial))}
    for name, data in {"first": FIRST, "last": LAST, **parts}.items():
        if data:
            files[name] = (name, data)
    response: httpx2.Response = side.http.post("/v1/trials", files=files, headers=headers)
    return response


def record(**changes: Any) -> dict[str, bytes]:
    """Return the parts of a saved record with two steps."""
    steps = [
        StepRecord(
            number,
            Observation(instruction="Do it well."),
            # Large enough to be kept in a column of its own.
            Action(data=np.linspace(0, number, 20_000)),
            StepResult(Observation(), info={"distance": number / 4}),
        )
        for number in range(2)
    ]
    files = save_trial(Record("s", 0, 7, steps=steps, **changes), Scene("s", "Do it."))
    return {"record": files.pop("record.json"), **files}


def cockpit(side: Side, data: bytes = COCKPIT, **changes: Any) -> httpx2.Response:
    return post(
        side, {"trajectory": data, "first": b"", "last": b""},
        kind="a320", scene=..., frames=..., **changes,
    )  # fmt: skip


BAD: dict[str, Callable[[Side], httpx2.Response]] = {
    "no multipart": lambda side: side.http.post("/v1/trials", json={}),
    "no boundary": lambda side: side.http.post(
        "/v1/trials", content=b"x", headers={"content-type": "multipart/form-data"}
    ),
    "cut short": lambda side: side.http.post(
        "/v1/trials",
        content=b'--b\r\nContent-Disposition: form-data; name="trial"\r\n\r\n{}',
        headers={"content-type": "multipart/form-data; boundary=b"},
    ),
    "no name": lambda side: side.http.post(
        "/v1/trials",
        content=b"--b\r\nContent-Type: text/plain\r\n\r\n{}\r\n--b--\r\n",
        headers={"content-type": "multipart/form-data; boundary=b"},
    ),
    "something before": lambda side: side.http.post(
        "/v1/trials",
        content=b'hi\r\n--b\r\nContent-Disposition: form-data; name="trial"\r\n\r\n{}\r\n--b--\r\n',
        headers={"content-type": "multipart/form-data; boundary=b"},
    ),
    "a part twice": lambda side: side.http.post(
        "/v1/trials", files=[("trial", (None, "{}")), ("trial", (None, "{}"))]
    ),
    "compressed": lambda side: post(side, headers={"content-encoding": "gzip"}),
    "no trial": lambda side: side.http.post("/v1/trials", files={"other": (None, "{}")}),
    "no JSON": lambda side: post(side, raw=b"{"),
    "no object": lambda side: post(side, raw=b"[]"),
    "a duplicate key": lambda side: post(side, raw=b'{"kind": "robot", "kind": "robot"}'),
    "no kind": lambda side: post(side, kind=...),
    "an unknown kind": lambda side: post(side, kind="boat"),
    "an unknown key": lambda side: post(side, colour="red"),
    "no run": lambda side: post(side, run=...),
    "an empty run": lambda side: post(side, run=""),
    "a run with a line end": lambda side: post(side, run="a\nb"),
    "a negative epoch": lambda side: post(side, epoch=-1),
    "an unknown phase": lambda side: post(
        side, frames=[{"camera": "c", "phase": "final", "part": "last"}]
    ),
    "a frame without its part": lambda side: post(side, {"last": b""}),
    "a part that nothing names": lambda side: post(side, {"more": b"x"}),
    "a frame that is none": lambda side: post(side, {"last": b"<html>"}),
    "a frame twice": lambda side: post(
        side, frames=[{"camera": "c", "phase": "last", "part": part} for part in ("first", "last")]
    ),
    "a record that is none": lambda side: post(side, {"record": b"{}"}, record="record"),
    "a record without its columns": lambda side: post(
        side, {"record": record()["record"]}, record="record"
    ),
    "a record of another scene": lambda side: post(
        side, record(), record="record", scene={"id": "other", "instruction": "x"}
    ),
    "an unknown rubric": lambda side: post(side, rubric="robot/no-such"),
    "a rubric of the other kind": lambda side: post(side, rubric="a320/report"),
    "a priority out of range": lambda side: post(side, priority=11),
    "two client ids": lambda side: post(side, client_id="a", headers={"idempotency-key": "b"}),
    "a trajectory that is none": lambda side: cockpit(side, b"{}\n"),
    "a trajectory missing": lambda side: cockpit(side, b""),
    "a trial that is not there": lambda side: side.http.get(
        "/v1/trials/01890a5d-ac96-774b-bcce-b302099a8057"
    ),
    "an id that is none": lambda side: side.http.get("/v1/trials/x"),
    "a run that is not there": lambda side: side.http.get("/v1/runs/none"),
    "an unknown filter": lambda side: side.http.get("/v1/trials", params={"color": "red"}),
    "an unknown state": lambda side: side.http.get("/v1/trials", params={"state": "over"}),
    "a limit of nothing": lambda side: side.http.get("/v1/trials", params={"limit": 0}),
    "a cursor that is none": lambda side: side.http.get("/v1/trials", params={"cursor": "x"}),
    "an unknown route": lambda side: side.http.get("/v1/nothing"),
    "a wrong method": lambda side: side.http.delete("/v1/trials"),
}


def error_of(response: httpx2.Response) -> dict[str, Any]:
    """Return what a client can tell of an error."""
    body = response.json()
    return {
        "status": response.status_code,
        "media_type": response.headers["content-type"],
        "keys": sorted(body),
        **{key: body[key] for key in ("type", "title", "status")},
    }


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused_is_refused_alike(both: tuple[Side, Side], name: str) -> None:
    real, stub = (BAD[name](side) for side in both)
    assert real.status_code >= 400, real.text
    assert error_of(stub) == error_of(real)


def told(response: httpx2.Response) -> dict[str, Any]:
    """Return what is told of a trial, but what differs by its nature."""
    body = response.json()
    for name in ("id", "created_at", "note"):
        assert name in body
        del body[name]
    body["links"] = {name: link.rpartition("/")[2] for name, link in body["links"].items()}
    body["links"].pop("self")
    return {"status": response.status_code, "keys": list(body), **body}


GOOD: dict[str, Callable[[Side, str], httpx2.Response]] = {
    "graded": lambda side, id_: post(side, client_id=id_, epoch=2),
    "abstained": lambda side, id_: post(
        side, client_id=id_, scene={"id": "abstained", "instruction": "Abstain."}
    ),
    "ungraded": lambda side, id_: post(
        side, client_id=id_, scene={"id": "locked out", "instruction": "Lock out."}
    ),
    "with a record": lambda side, id_: post(side, record(), client_id=id_, record="record"),
    "adopted": lambda side, id_: post(
        side, record(terminated=True, termination_reason="failure"), client_id=id_, record="record"
    ),
    "adopted from the console": lambda side, id_: post(
        side, record(operator_judgement="y"), client_id=id_, record="record"
    ),
    "cockpit": lambda side, id_: cockpit(side, client_id=id_),
    "an idempotency key": lambda side, id_: post(side, headers={"idempotency-key": id_}),
    "a rubric of its own": lambda side, id_: post(
        side, client_id=id_, rubric={"criteria": [{"id": "done", "text": "It is done."}]}
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_trial_is_taken_found_and_graded_alike(both: tuple[Side, Side], name: str) -> None:
    seen = []
    for side in both:
        answers = [GOOD[name](side, f"good {name}")]
        location = answers[0].headers["location"]
        assert location == f"/v1/trials/{answers[0].json()['id']}"
        # The same once more is the same trial.
        answers.append(GOOD[name](side, f"good {name}"))
        assert answers[1].json()["id"] == answers[0].json()["id"]
        side.grade()
        answers.append(side.http.get(location))
        page = side.http.get("/v1/trials", params={"client_id": f"good {name}"}).json()
        verdicts = side.http.get(f"{location}/verdicts")
        record = side.http.get(f"{location}/record")
        seen.append(
            {
                "answers": [told(answer) for answer in answers],
                "page": [sorted(page), page["next_cursor"], len(page["trials"])],
                "verdicts": [
                    [one["outcome"], one["verdict"], one["reason"], one["source"],
                     one["effective"], sorted(one)] for one in verdicts.json()
                ],
                "record": [record.status_code, record.headers["content-type"]],
                "judgement": _judgement(record),
            }
        )  # fmt: skip
    real, stub = seen
    assert [answer["status"] for answer in real["answers"]] == [202, 200, 200]
    assert real["answers"][2]["state"] == "done"
    assert stub == real


def _judgement(response: httpx2.Response) -> Any:
    if "x-ndjson" in response.headers["content-type"]:
        return json.loads(response.content.splitlines()[-1])["verdict"]
    saved = response.json()["record"]
    return saved["operator_judgement"], saved["metadata"].get("grading_error")


def test_a_client_id_with_other_content_is_a_conflict_alike(both: tuple[Side, Side]) -> None:
    errors = []
    for side in both:
        assert post(side, client_id="taken").status_code == 202
        errors.append([error_of(post(side, client_id="taken", epoch=1)),
                       error_of(post(side, {"last": FIRST}, client_id="taken"))])  # fmt: skip
    assert errors[0] == errors[1]
    assert errors[0][0]["status"] == 409


def test_a_run_is_listed_page_by_page_and_summed_up_alike(both: tuple[Side, Side]) -> None:
    seen = []
    for side in both:
        for number in range(3):
            post(side, run="pages", client_id=f"page {number}")
        side.grade()
        first = side.http.get("/v1/trials", params={"run": "pages", "limit": 2}).json()
        more = {"run": "pages", "limit": 2, "cursor": first["next_cursor"]}
        second = side.http.get("/v1/trials", params=more).json()
        summary = side.http.get("/v1/runs/pages").json()
        for name in ("usage", "cost"):
            summary[name] = sorted(summary[name])
        seen.append(
            {
                "first": [one["client_id"] for one in first["trials"]],
                "second": [one["client_id"] for one in second["trials"]],
                "end": second["next_cursor"],
                "summary": summary,
            }
        )
    assert seen[0] == seen[1]
    assert seen[0]["summary"]["graded"] == {"n": 3, "success": 3, "failure": 0}


@pytest.mark.parametrize(
    "path", ["/v1/rubrics", "/v1/rubrics/robot/push", "/v1/rubrics/robot/pusch", "/v1/rubrics/x"]
)
def test_rubrics_are_told_alike(both: tuple[Side, Side], path: str) -> None:
    answers = [side.http.get(path) for side in both]
    assert answers[0].status_code == answers[1].status_code
    assert answers[0].json() == answers[1].json()


def test_health_is_told_alike(both: tuple[Side, Side]) -> None:
    alive = [side.http.get("/healthz").json() for side in both]
    assert alive[0] == alive[1] == {"status": "ok"}
    ready = [side.http.get("/readyz") for side in both]
    assert [answer.status_code for answer in ready] == [200, 200]
    assert ready[0].json().keys() == ready[1].json().keys()


def test_the_files_of_a_trial_have_the_same_names(both: tuple[Side, Side]) -> None:
    names = []
    for side in both:
        location = post(side, record(), record="record").headers["location"]
        side.grade()
        with Client(str(side.http.base_url)) as client:
            files = client.files(location.rpartition("/")[2])
        assert files["record.json"].startswith(b"{")
        names.append(sorted(files))
    assert names[0] == names[1]
