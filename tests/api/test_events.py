"""Live progress of a run over HTTP: what comes when, from where on, and what it costs."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from sqlalchemy import update

from grader_service.api import events
from grader_service.api.app import create_app
from grader_service.api.body import Limits
from grader_service.providers.stub import StubModel
from grader_service.storage.tables import gradings
from tests.client.conftest import serving
from tests.support.in_process import InProcess, in_process
from tests.support.judges import judge_at
from tests.support.stack import wait_until

SCENE = {"id": "s", "instruction": "Put the block away."}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[InProcess]:
    with StubModel() as model, in_process(tmp_path, judge_at(model.url), Limits()) as service:
        yield service


@pytest.fixture
def url(service: InProcess) -> Iterator[str]:
    with serving(create_app(service.service, Limits())) as url:
        yield url


def submit(service: InProcess, frame: bytes, n: int = 1, *, run: str = "r") -> list[str]:
    trial = {
        "kind": "robot",
        "run": run,
        "scene": SCENE,
        "frames": [{"camera": "front", "phase": "last", "part": "f0"}],
    }
    return [service.submit(trial, {"f0": frame}).json()["id"] for _ in range(n)]


Event = tuple[str, str | None, dict[str, Any]]


def read(lines: Iterator[str]) -> Event | None:
    """Return the next event as (name, id, data), or None at the end of the stream."""
    fields: dict[str, str] = {}
    for line in lines:
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            return fields["event"], fields.get("id"), json.loads(fields["data"])
    return None


def follow(url: str, *, last_id: str | None = None, **params: str) -> list[Event]:
    """Read a stream to its end."""
    headers = {} if last_id is None else {"Last-Event-ID": last_id}
    response = httpx2.get(f"{url}/v1/runs/r/events", params=params, headers=headers, timeout=30)
    assert response.status_code == 200, response.text
    lines = iter(response.text.split("\n"))
    return list(iter(lambda: read(lines), None))


def test_the_summary_comes_at_once_each_trial_as_it_ends_and_the_end_at_last(
    service: InProcess, url: str, frame: bytes
) -> None:
    ids = submit(service, frame, 3)
    with httpx2.stream("GET", f"{url}/v1/runs/r/events", timeout=30) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-cache"
        lines = response.iter_lines()
        assert read(lines) == ("summary", None, service.api.get("/v1/runs/r").json())
        service.grade()
        seen: list[Event] = []
        while event := read(lines):
            seen.append(event)
    trials = [data for name, _, data in seen if name == "trial"]
    assert sorted(trial["id"] for trial in trials) == sorted(ids)
    assert trials[0] == service.trial(trials[0]["id"])
    assert seen[-1] == ("end", None, service.api.get("/v1/runs/r").json())
    assert [name for name, *_ in seen].count("end") == 1


def test_a_run_that_has_ended_is_told_whole(service: InProcess, url: str, frame: bytes) -> None:
    submit(service, frame, 2)
    service.grade()
    assert [name for name, *_ in follow(url)] == ["summary", "trial", "trial", "end"]
    assert [name for name, *_ in follow(url, trials="false")] == ["summary", "end"]


def test_a_follower_that_comes_back_goes_on_after_the_last_event_it_had(
    service: InProcess, url: str, frame: bytes
) -> None:
    ids = submit(service, frame, 3)
    service.grade()
    with service.service.database.write() as unit:
        for number, trial_id in enumerate(ids):
            # Far apart: ends within seconds of each other may come again.
            at = 1000.0 * (number + 1)
            unit.execute(update(gradings).where(gradings.c.trial_id == trial_id).values(done_at=at))
    first = [(id_, data["id"]) for name, id_, data in follow(url) if name == "trial"]
    assert [trial_id for _, trial_id in first] == ids
    rest = [data["id"] for name, _, data in follow(url, last_id=first[1][0]) if name == "trial"]
    assert rest == ids[1:]


def test_an_unknown_run_and_an_id_that_is_none_are_problems(
    service: InProcess, url: str, frame: bytes
) -> None:
    missing = httpx2.get(f"{url}/v1/runs/none/events")
    assert missing.status_code == 404
    assert missing.headers["content-type"] == "application/problem+json"
    submit(service, frame)
    odd = httpx2.get(f"{url}/v1/runs/r/events", headers={"Last-Event-ID": "yesterday"})
    assert odd.status_code == 422
    assert "yesterday" in odd.json()["detail"]


def test_what_is_submitted_before_somebody_follows_is_in_the_first_summary(
    service: InProcess, url: str, frame: bytes
) -> None:
    submit(service, frame)
    with httpx2.stream("GET", f"{url}/v1/runs/r/events", timeout=30) as other:
        read(other.iter_lines())
        for trials in (2, 3, 4):
            submit(service, frame)
            with httpx2.stream("GET", f"{url}/v1/runs/r/events", timeout=30) as response:
                event = read(response.iter_lines())
            assert event is not None
            assert event[2]["trials"] == trials


def test_more_followers_than_threads_and_connections_hold_none_of_them(
    service: InProcess, url: str, frame: bytes
) -> None:
    submit(service, frame)
    followers = 60
    assert followers > 40 > service.service.database.engine.pool.size()  # type: ignore[attr-defined]
    with ExitStack() as stack:
        streams = [
            stack.enter_context(httpx2.stream("GET", f"{url}/v1/runs/r/events", timeout=60))
            for _ in range(followers)
        ]
        lines = [stream.iter_lines() for stream in streams]
        for one in lines:
            event = read(one)
            assert event is not None
            assert event[0] == "summary"
        threads = threading.active_count()
        assert threads < followers
        assert httpx2.get(f"{url}/v1/trials?run=r").status_code == 200
        service.grade()
        for one in lines:
            names = []
            while event := read(one):
                names.append(event[0])
            assert names[-2:] == ["trial", "end"] or names[-1] == "end"
            assert names.count("trial") == 1


def test_who_goes_away_leaves_nothing_behind(service: InProcess, frame: bytes) -> None:
    submit(service, frame)
    app = create_app(service.service, Limits())
    with serving(app) as url:
        with httpx2.stream("GET", f"{url}/v1/runs/r/events", timeout=30) as response:
            read(response.iter_lines())
            assert list(app.state.looks._looks) == ["r"]

        def forgotten() -> bool:
            # How it ended may be in a cycle with its frames.
            gc.collect()
            return not app.state.looks._looks

        wait_until(forgotten, what="the follower to be cleaned up")


def test_an_idle_stream_says_that_it_is_alive(
    service: InProcess, url: str, frame: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_KEEP_ALIVE_S", 0.0)
    submit(service, frame)
    with httpx2.stream("GET", f"{url}/v1/runs/r/events", timeout=30) as response:
        comment = next(line for line in response.iter_lines() if line.startswith(":"))
    assert comment == ": still here"


def test_a_follower_that_reads_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_STALLED_S", 0.05)
    ended = []

    async def endless() -> AsyncGenerator[str]:
        try:
            while True:
                yield "event: summary\n\n"
        finally:
            ended.append(True)

    async def stalled(message: Any) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    async def connected() -> Any:
        await asyncio.Event().wait()

    scope = {"type": "http", "asgi": {"spec_version": "2.3"}}

    async def serve() -> None:
        stream = endless()
        async with asyncio.timeout(10):
            await events.EventStream(stream)(scope, connected, stalled)
        await stream.aclose()

    asyncio.run(serve())
    assert ended == [True]


def test_a_database_that_goes_away_ends_the_stream_so_that_the_follower_comes_back(
    service: InProcess, url: str, frame: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    submit(service, frame)
    with httpx2.stream("GET", f"{url}/v1/runs/r/events", timeout=30) as response:
        lines = response.iter_lines()
        read(lines)
        with service.service.database.write() as unit:
            unit.connection.exec_driver_sql("ALTER TABLE trials RENAME TO gone")
        assert read(lines) is None
    assert "Traceback" not in caplog.text
    assert httpx2.get(f"{url}/v1/runs/r/events").status_code == 503


def test_who_asks_while_the_service_stops_is_told_to_come_back(
    service: InProcess, url: str, frame: bytes
) -> None:
    submit(service, frame)
    events.let_followers_go()
    answer = httpx2.get(f"{url}/v1/runs/r/events", timeout=30)
    assert answer.status_code == 503
    assert answer.json()["detail"] == "the service is stopping"


def test_a_follower_hears_something_while_a_look_at_a_huge_run_rests(
    service: InProcess, url: str, frame: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_KEEP_ALIVE_S", 0.0)
    monkeypatch.setattr(events, "_REST", 10_000)
    submit(service, frame)
    with httpx2.stream("GET", f"{url}/v1/runs/r/events", timeout=30) as response:
        alive = (line for line in response.iter_lines() if line.startswith(":"))
        assert [next(alive), next(alive)] == [": still here"] * 2
