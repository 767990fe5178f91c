"""Live progress of a run as server-sent events.

Whoever follows a run holds no thread and no connection of the database while nothing happens: all
followers of a run share one look at its summary, and only a change of it makes each ask for what
ended.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakSet, WeakValueDictionary

from fastapi.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Message, Send

from grader_service.api.schemas import TrialOut
from grader_service.errors import AutograderError, InputError
from grader_service.grading.progress import Ended, Follower
from grader_service.grading.service import Service
from grader_service.grading.summary import run_summary
from grader_service.storage.progress import BEGINNING, Position

# Seconds between two looks at a run, and how many times as long as a look took, if that is longer:
# following a huge run must not keep the database busy.
_LOOK_S: Final = 0.5
_REST: Final = 10
# A connection that is idle for longer is cut by many a proxy.
_KEEP_ALIVE_S: Final = 15.0
# Who reads nothing for so long is gone.
_STALLED_S: Final = 30.0


@dataclass
class _Look:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    begun: float = 0.0
    due: float = 0.0
    summary: dict[str, Any] = field(default_factory=dict)


class Looks:
    """The newest summaries of runs that are being followed, each read once for all followers."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._looks: WeakValueDictionary[str, _Look] = WeakValueDictionary()
        self._stopped = False
        _all_looks.add(self)

    def stop(self) -> None:
        """Let go of all followers, soon."""
        self._stopped = True

    async def follow(self, run: str) -> AsyncIterator[dict[str, Any]]:
        """Return a run's summary now and every half a second, until `stop`."""
        look = self._looks.setdefault(run, _Look())
        asked = time.monotonic()
        while not self._stopped:
            async with look.lock:
                begun = time.monotonic()
                # What was submitted before somebody began to follow is in the first summary.
                if begun >= look.due or look.begun < asked:
                    look.summary = await run_in_threadpool(run_summary, self._service, run)
                    now = time.monotonic()
                    look.begun, look.due = begun, now + max(_LOOK_S, _REST * (now - begun))
            yield look.summary
            # In short steps: followers are to hear something while a look rests.
            await asyncio.sleep(min(_LOOK_S, max(0.0, look.due - time.monotonic())))


_all_looks: WeakSet[Looks] = WeakSet()


def let_followers_go() -> None:
    """End all streams of this process: a server that stops would wait for them in vain."""
    for looks in _all_looks:
        looks.stop()


async def events(
    looks: Looks, service: Service, run: str, *, after: Position, trials: bool
) -> AsyncIterator[str]:
    """Return the events of a run as text, until none of its trials is pending.

    `summary` at once and on change, `trial` for each that ends (from `after` on), `end` with the
    last summary. Raises NotFoundError for an unknown run. Ends early when the database is away or
    the run was pruned: whoever follows comes back with its last id and is told.
    """
    follower = Follower(service, run, after)
    shown: dict[str, Any] | None = None
    said = time.monotonic()
    try:
        async for summary in looks.follow(run):
            pending = summary["pending"]["n"]
            if summary != shown:
                shown = summary
                yield _event("summary", summary)
                said = time.monotonic()
                async for ended in _ended(follower, wanted=trials):
                    yield _event("trial", _trial(ended), id_=_id(ended.position))
            if not pending:
                yield _event("end", summary)
                return
            if time.monotonic() - said > _KEEP_ALIVE_S:
                yield ": still here\n\n"
                said = time.monotonic()
    except AutograderError:
        # An answer that has begun can't become a problem document.
        if shown is None:
            raise


async def _ended(follower: Follower, *, wanted: bool) -> AsyncIterator[Ended]:
    more = wanted
    while more:
        batch, more = await run_in_threadpool(follower.batch)
        for ended in batch:
            yield ended


def _event(name: str, value: Any, *, id_: str | None = None) -> str:
    head = f"event: {name}\n" + (f"id: {id_}\n" if id_ else "")
    return f"{head}data: {json.dumps(value)}\n\n"


def _trial(ended: Ended) -> dict[str, Any]:
    return TrialOut.of(ended.trial).model_dump()


def _id(position: Position) -> str:
    return f"{position[0]!r}/{position[1]}"


def read_id(text: str | None) -> Position:
    """Return the position that the id of a `trial` event stands for; of none, the beginning."""
    if not text:
        return BEGINNING
    at, _, grading_id = text.partition("/")
    with suppress(ValueError):
        return (float(at), grading_id)
    raise InputError(
        f"{text[:80]!r} is no id of an event", fix="send the id of the last event, or none"
    )


class EventStream(StreamingResponse):
    """A stream of events that ends for those who stay connected and read nothing."""

    media_type = "text/event-stream"

    def __init__(self, content: AsyncIterator[str]) -> None:
        # The second tells nginx to hold nothing back.
        super().__init__(content, headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})

    async def stream_response(self, send: Send) -> None:
        async def in_time(message: Message) -> None:
            async with asyncio.timeout(_STALLED_S):
                await send(message)

        with suppress(TimeoutError):
            await super().stream_response(in_time)
