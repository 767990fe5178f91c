"""A run is followed over a stream that may be cut, held back, or not be there at all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader_service.client.aio import AsyncClient
from grader_service.client.following import Following, Lines
from grader_service.client.http import Client
from grader_service.client.types import Progress, RunEnded, SummaryChanged, TrialEnded
from tests.client.conftest import serving


def summary(pending: int) -> dict[str, Any]:
    return {"run": "r", "trials": 3, "pending": {"n": pending}}


def event(name: str, value: Any, id_: str = "") -> bytes:
    head = f"event: {name}\n" + (f"id: {id_}\n" if id_ else "")
    return f"{head}data: {json.dumps(value)}\n\n".encode()


def trial(number: int) -> bytes:
    return event("trial", {"id": f"t{number}"}, id_=f"{number}.0/g{number}")


def told(events: Sequence[Progress]) -> list[str]:
    """Return events as words that are easy to compare."""
    words = []
    for one in events:
        match one:
            case SummaryChanged(said):
                words.append(f"pending {said['pending']['n']}")
            case TrialEnded(ended):
                words.append(ended["id"])
            case RunEnded(said):
                words.append(f"end {said['pending']['n']}")
    return words


WHOLE = b"".join(
    [
        event("summary", summary(2)),
        b": still here\n\n",
        trial(1),
        event("summary", summary(1)),
        event("a later version's", {"x": "é\u2028"}),
        trial(2),
        event("end", summary(0)),
    ]
)


@given(st.lists(st.integers(0, len(WHOLE)), max_size=8))
def test_where_chunks_end_makes_no_difference(cuts: list[int]) -> None:
    following = Following("r", trials=True)
    edges = [0, *sorted(cuts), len(WHOLE)]
    events = [one for begin, end in pairwise(edges) for one in following.feed(WHOLE[begin:end])]
    assert told(events) == ["pending 2", "t1", "pending 1", "t2", "end 0"]
    assert following.over


@given(st.lists(st.text(alphabet="a\r\u2028\x85é", max_size=5)), st.integers(1, 7))
def test_only_a_line_feed_ends_a_line(texts: list[str], size: int) -> None:
    data = "".join(f"{text}\n" for text in texts).encode()
    lines = Lines()
    found = [
        line
        for begin in range(0, len(data), size)
        for line in lines.feed(data[begin : begin + size])
    ]
    assert found == [text.encode() for text in texts]


@pytest.mark.parametrize(
    "chunk", [b"data: {\n\n", b"event: end\n\n", b"data: []\n\n", b"\n\n\n", b"\xff: \xfe\n\n"]
)
def test_what_is_no_event_tells_nothing(chunk: bytes) -> None:
    following = Following("r", trials=True)
    assert list(following.feed(chunk)) == []
    assert not following.over


@dataclass
class Broken:
    """A service whose streams end as a script says: the chunks of each stream in turn.

    The summary has as many pending trials as `pending` says, one poll after the other.
    """

    streams: Sequence[Sequence[bytes]]
    pending: Sequence[int]
    status: int = 200
    asked: list[str] = field(default_factory=list)
    last_ids: list[str | None] = field(default_factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        await receive()
        is_stream = scope["path"].endswith("/events")
        turn = self.asked.count("stream" if is_stream else "poll")
        self.asked.append("stream" if is_stream else "poll")
        if not is_stream:
            body = json.dumps(summary(self.pending[min(turn, len(self.pending) - 1)])).encode()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": body})
            return
        headers = dict(scope["headers"])
        last_id = headers.get(b"last-event-id")
        self.last_ids.append(None if last_id is None else last_id.decode())
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        for chunk in self.streams[min(turn, len(self.streams) - 1)]:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def follow_sync(url: str) -> list[str]:
    with Client(url) as client:
        return told(list(client.progress("r")))


def follow_async(url: str) -> list[str]:
    async def ask() -> list[str]:
        async with AsyncClient(url) as client:
            return told([one async for one in client.progress("r")])

    return asyncio.run(ask())


@pytest.fixture(params=[follow_sync, follow_async])
def follow(request: pytest.FixtureRequest) -> Callable[[str], list[str]]:
    """Follow the run with either client."""
    way: Callable[[str], list[str]] = request.param
    return way


def test_a_stream_that_is_cut_is_taken_up_after_the_last_trial_it_told(
    follow: Callable[[str], list[str]],
) -> None:
    server = Broken(
        streams=[
            [event("summary", summary(3)), trial(1), trial(2)[:-5]],
            # The second came with the first already: the service repeats what is seconds apart.
            [event("summary", summary(1)), trial(1), trial(2), trial(3), event("end", summary(0))],
        ],
        pending=[2],
    )
    with serving(server) as url:
        words = follow(url)
    assert words == ["pending 3", "t1", "pending 2", "pending 1", "t2", "t3", "end 0"]
    assert server.last_ids == [None, "1.0/g1"]


@pytest.mark.parametrize("status", [200, 404, 502])
def test_where_no_stream_comes_through_the_run_is_polled_and_read_whole_at_its_end(
    follow: Callable[[str], list[str]], status: int
) -> None:
    # A proxy that holds back an open stream lets through one that ends.
    last = [trial(1), trial(2), event("end", summary(0))] if status == 200 else []
    server = Broken(streams=[[], last], pending=[1, 0], status=status)
    with serving(server) as url:
        words = follow(url)
    trials = ["t1", "t2"] if last else []
    assert words == ["pending 1", "pending 0", *trials, "end 0"]
    assert server.asked[:4] == ["stream", "poll", "poll", "stream"]
