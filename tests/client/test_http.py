"""The client against real servers: what it returns, and what errors tell whoever calls it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grader_service.cli.processes import free_port
from grader_service.client.http import Client
from grader_service.errors import (
    AutograderError,
    ConflictError,
    InputError,
    NoServiceError,
    NotFoundError,
    UnavailableError,
)
from grader_service.grading.service import Service
from grader_service.grading.submit import RobotSubmission, submit
from grader_service.records.trial import Scene
from tests.client.conftest import serving


@pytest.fixture
def client(service_url: str) -> Iterator[Client]:
    with Client(service_url) as client:
        yield client


def robot(**changes: Any) -> dict[str, Any]:
    scene = {"id": "pad-01", "instruction": "Put the cube on the square."}
    return {"kind": "robot", "run": "r1", "scene": scene, "epoch": 0} | changes


def test_what_was_submitted_can_be_read_again(client: Client, sample_trials: Path) -> None:
    frame = (sample_trials / "pad-01" / "final_front.jpg").read_bytes()
    frames = [{"camera": "front", "phase": "last", "part": "f0"}]
    submitted = client.submit(robot(frames=frames, client_id="again-1"), {"f0": frame})
    assert submitted["state"] == "queued"
    assert client.submit(robot(frames=frames, client_id="again-1"), {"f0": frame}) == submitted

    trial_id = submitted["id"]
    assert client.trial(trial_id)["scene_id"] == "pad-01"
    assert client.run("r1")["trials"] >= 1
    assert client.verdicts(trial_id) == []
    assert json.loads(client.record(trial_id))["frames"][0]["camera"] == "front"
    assert json.loads(client.scorecard(trial_id))["kind"] == "robot"
    assert client.readiness()["ready"] is True


def test_rubrics_and_judges_can_be_looked_up_by_name(client: Client) -> None:
    found = client.rubric("robot/place-in-goal")
    assert found["rubric"]["id"] == "robot/place-in-goal"
    assert client.rubric(found["digest"]) == found
    # This service has none.
    assert client.judges() == []
    with pytest.raises(NotFoundError, match="did you mean robot/place-in-goal"):
        client.rubric("robot/place-in-gaol")


def test_a_cockpit_run_goes_in_and_its_card_comes_out(client: Client, data: Path) -> None:
    trajectory = (data / "a320" / "g01_apu_full.jsonl").read_bytes()
    submitted = client.submit({"kind": "a320", "run": "a"}, {"trajectory": trajectory})
    card = client.scorecard(submitted["id"])
    assert card == (data.parent / "golden" / "a320" / "g01_apu_full.json").read_bytes()
    assert client.record(submitted["id"]) == trajectory


def test_a_run_of_more_trials_than_a_page_holds_comes_whole_and_in_order(
    client: Client, service: Service
) -> None:
    ids = [
        submit(service, RobotSubmission("long", Scene(f"s{n}", "Do it."), 0, frames=[])).id
        for n in range(501)
    ]
    assert [trial["id"] for trial in client.trials(run="long")] == ids
    assert list(client.trials(run="nobody's")) == []


@pytest.mark.parametrize("run", ["lab 7", "a?b#c", "50%", "Ω-1", "%2e", "lab/7", "a/aggregate/b"])
def test_a_run_may_be_called_what_a_url_would_misread(client: Client, run: str) -> None:
    client.submit(robot(run=run), {})
    assert client.run(run)["run"] == run
    assert [trial["run"] for trial in client.trials(run=run)] == [run]
    assert len(list(client.scorecards(run))) == 1
    assert client.aggregate(run) == []


@pytest.mark.parametrize(
    ("call", "kind", "detail"),
    [
        (lambda client: client.run("nowhere"), NotFoundError, "nowhere"),
        (lambda client: client.trial("0" * 32), NotFoundError, "trial"),
        (lambda client: client.submit(robot(run=""), {}), InputError, "run"),
        (lambda client: client.submit(robot(), {"f9": b""}), InputError, "f9"),
        (lambda client: client.submit(robot(), {"f9": b"0" * 600_000}), InputError, "f9"),
        (
            lambda client: [
                client.submit(robot(client_id="mine", scene={"id": s, "instruction": "x"}), {})
                for s in "ab"
            ],
            ConflictError,
            "mine",
        ),
        (
            lambda client: client.submit(
                {"kind": "a320", "run": "a"}, {"trajectory": b'{"type": "final"}\n'}
            ),
            InputError,
            "no meta record",
        ),
    ],
)
def test_what_the_service_refuses_is_an_error_with_its_words_and_its_fix(
    client: Client, call: Callable[[Client], Any], kind: type[AutograderError], detail: str
) -> None:
    with pytest.raises(kind, match=detail) as caught:
        call(client)
    assert type(caught.value) is kind
    assert caught.value.fix
    assert caught.value.exit_code == 2


def test_where_nothing_listens_the_error_says_how_to_start_a_service() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with Client(url) as client, pytest.raises(UnavailableError, match=url) as caught:
        client.run("r1")
    assert "autograder up" in str(caught.value.fix)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("url", ["127.0.0.1:1", "ftp://127.0.0.1", ""])
def test_an_address_that_is_none_is_no_service_either(url: str) -> None:
    with Client(url) as client, pytest.raises(UnavailableError, match="no service answers"):
        client.run("r1")


def answering(status: int, body: bytes, *headers: tuple[bytes, bytes]) -> Callable[..., Any]:
    """Return an application that gives this answer to every request."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        await send({"type": "http.response.start", "status": status, "headers": list(headers)})
        await send({"type": "http.response.body", "body": body})

    return app


PROBLEM = b'{"type": "t", "title": "x", "status": 503, "detail": "the disk is full", "fix": "mend"}'


@pytest.mark.parametrize(
    ("status", "body", "kind", "detail", "fix"),
    [
        (503, PROBLEM, UnavailableError, "the disk is full", "mend"),
        (500, b"<html>oops</html>", UnavailableError, "HTTP 500", "log of the service"),
        (502, b"", UnavailableError, "HTTP 502", "log of the service"),
        (404, b"[]", NoServiceError, "HTTP 404", "--url"),
        (404, b'{"detail": "no trial"}', NotFoundError, "no trial", "check the id"),
        (413, b"<html>", InputError, "HTTP 413", "correct it"),
        (409, b'{"detail": ["odd"]}', ConflictError, "odd", None),
        (418, b"\xff", NoServiceError, "HTTP 418", "--url"),
        (301, b"", NoServiceError, "HTTP 301", "--url"),
        (429, b"", UnavailableError, "HTTP 429", "try again"),
        (200, b"<html>Welcome</html>", NoServiceError, "is no autograder service", "--url"),
        (200, b"[1]", NoServiceError, "is no autograder service", "--url"),
    ],
)
def test_answers_of_proxies_and_strangers_are_errors_too(
    status: int, body: bytes, kind: type[AutograderError], detail: str, fix: str | None
) -> None:
    headers = [(b"location", b"http://127.0.0.1:9/")] if status == 301 else []
    with (
        serving(answering(status, body, *headers)) as url,
        Client(url) as client,
        pytest.raises(kind, match=detail) as caught,
    ):
        client.run("r1")
    assert type(caught.value) is kind
    assert (fix or "") in (caught.value.fix or "")


def test_a_service_that_does_not_answer_in_time_is_not_there() -> None:
    async def silent(scope: Any, receive: Any, send: Any) -> None:
        while scope["type"] == "http" and (await receive())["type"] != "http.disconnect":
            pass

    with (
        serving(silent) as url,
        Client(url, timeout_s=0.05) as client,
        pytest.raises(UnavailableError, match="no service answers"),
    ):
        client.run("r1")


def test_proxies_and_the_environment_have_no_say(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    with Client(client.url) as other:
        assert other.readiness() == client.readiness()


def test_an_answer_that_names_no_trial_is_no_receipt_of_one() -> None:
    with (
        serving(answering(200, b'{"status": "ok"}')) as url,
        Client(url) as client,
        pytest.raises(NoServiceError),
    ):
        client.submit(robot(), {})
