"""Following a run and waiting for it, without the reading and sleeping that clients do."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from grader_service.client import calls
from grader_service.client.types import (
    Progress,
    RunEnded,
    RunSummary,
    SummaryChanged,
    Trial,
    TrialEnded,
)

# The service says something every 15 seconds: what is silent for longer is broken, or held back.
SILENCE_S: Final = 20.0
POLL_S: Final = 1.0
# Events that may come twice are seconds apart.
_REMEMBERED: Final = 10_000


class Lines:
    """Cuts a stream of bytes into lines. Only LF ends one: cards may hold other separators."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that a chunk completes, without their ends."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return lines


class Following:
    """What is known of a run that is being followed.

    A client reads the stream of events while `may_stream`, feeds it here and calls `cut` when it
    ends. Where that was not the end of the run, it polls the summary and goes on; a stream that
    gives nothing is left alone until the run has ended: a proxy that holds back an open stream lets
    one pass that ends.
    """

    def __init__(self, run: str, *, trials: bool) -> None:
        self.over = False
        self.may_stream = True
        self._run = run
        self._trials = trials
        self._last_id: str | None = None
        self._seen: dict[str, None] = {}
        self._shown: RunSummary | None = None
        self._ended = False
        self._lines = Lines()
        self._fields: dict[str, str] = {}
        self._gave_something = False

    def call(self) -> calls.Call[None]:
        """Return the request for the stream, from where the last one was cut."""
        return calls.events(self._run, trials=self._trials, last_id=self._last_id)

    def feed(self, chunk: bytes) -> Iterator[Progress]:
        """Return what a chunk of the stream tells that is new."""
        for line in self._lines.feed(chunk):
            field, _, value = line.decode("utf-8", "replace").rstrip("\r").partition(": ")
            if field:
                self._fields[field] = value
            elif self._fields:
                fields, self._fields = self._fields, {}
                yield from self._event(fields)

    def cut(self) -> None:
        """Note that the stream ended."""
        self.may_stream = self._gave_something and not self._ended
        self._lines = Lines()
        self._fields = {}
        self._gave_something = False

    def polled(self, summary: RunSummary) -> Iterator[Progress]:
        """Return what a summary tells that is new."""
        yield from self._changed(summary)
        ended = not summary["pending"]["n"]
        if ended and self._ended:
            yield self._finish(summary)
        self.may_stream = self.may_stream or ended
        self._ended = ended

    def _event(self, fields: dict[str, str]) -> Iterator[Progress]:
        value: Any = None
        with suppress(ValueError):
            value = json.loads(fields.get("data", ""))
        if not isinstance(value, dict):
            return
        self._gave_something = True
        kind, id_ = fields.get("event"), fields.get("id")
        if kind == "summary":
            yield from self._changed(_as_summary(value))
        elif kind == "end":
            yield self._finish(_as_summary(value))
        elif kind == "trial" and id_ is not None:
            self._last_id = id_
            if id_ not in self._seen:
                self._remember(id_)
                yield TrialEnded(_as_trial(value))

    def _changed(self, summary: RunSummary) -> Iterator[Progress]:
        if summary != self._shown:
            self._shown = summary
            yield SummaryChanged(summary)

    def _finish(self, summary: RunSummary) -> RunEnded:
        self.over = True
        return RunEnded(summary)

    def _remember(self, id_: str) -> None:
        self._seen[id_] = None
        if len(self._seen) > _REMEMBERED:
            del self._seen[next(iter(self._seen))]


def _as_summary(value: Any) -> RunSummary:
    summary: RunSummary = value
    return summary


def _as_trial(value: Any) -> Trial:
    trial: Trial = value
    return trial


class Patience:
    """Pauses between two looks at what takes time: short at first, then of a second."""

    def __init__(self, timeout_s: float | None) -> None:
        self._timeout_s = timeout_s
        self._give_up = None if timeout_s is None else time.monotonic() + timeout_s
        self._pause = 0.05

    def pause(self, what: str, waiting_for: str | None) -> float:
        """Return the seconds until the next look. Raises TimeoutError when the time is over."""
        now = time.monotonic()
        pause, self._pause = self._pause, min(POLL_S, self._pause * 1.5)
        if self._give_up is None:
            return pause
        if now >= self._give_up:
            because = f" (it waits: {waiting_for})" if waiting_for else ""
            raise TimeoutError(f"{what} has not ended within {self._timeout_s:g} s{because}")
        return min(pause, self._give_up - now)
