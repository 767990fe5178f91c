"""What all workers together may ask of a provider: rate, concurrency, pauses and a breaker."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Final, Literal, NamedTuple, cast

from grader_service.errors import TryLaterError
from grader_service.grading.calls import Calls
from grader_service.grading.shared_state import SharedState
from grader_service.judging.judge import Judge
from grader_service.providers.base import ProviderConfig
from grader_service.records.canonical import digest_of
from grader_service.storage.ids import new_id

_SCRIPT: Final = files("grader_service.grading").joinpath("limits.lua").read_text()

Said = Literal["granted", "probe", "free", "half-open", "paused", "open", "busy", "fast"]


@dataclass(frozen=True, slots=True)
class ProviderLimit:
    """What one (provider, model) may be asked by all workers together; None is no limit."""

    key: str
    per_minute: float | None = None
    concurrency: int | None = None

    @classmethod
    def of(
        cls, provider: ProviderConfig, per_minute: float | None, concurrency: int | None
    ) -> ProviderLimit:
        # With the key, so that a new one starts without what the old one was refused for.
        key = digest_of([provider.url, provider.model, provider.api_key])[:16]
        return cls(key, per_minute, concurrency)


def shared_limits(limits: Mapping[str, ProviderLimit]) -> dict[str, ProviderLimit]:
    """Return `limits` with the strictest numbers for those that have a key in common."""

    def strictest(key: str) -> ProviderLimit:
        same = [limit for limit in limits.values() if limit.key == key]
        minutes = (limit.per_minute for limit in same if limit.per_minute is not None)
        at_once = (limit.concurrency for limit in same if limit.concurrency is not None)
        return ProviderLimit(key, min(minutes, default=None), min(at_once, default=None))

    return {name: strictest(limit.key) for name, limit in limits.items()}


@dataclass(frozen=True, slots=True)
class Room:
    """How many calls some judges of one limit have room for now (None: any number), and why not."""

    judges: tuple[str, ...]
    calls: int | None
    waiting_for: str | None = None


class _Reply(NamedTuple):
    said: Said
    wait_s: float
    why: str
    room: float


@dataclass
class ProviderLimits:
    """A worker process's part in the limits. Thread-safe.

    `judges` gives each judge's limit by its name; a judge that is not there has none but the pause
    and the breaker of its own name. Waits for a provider that is down grow from `first_wait_s` to
    `longest_wait_s`. `workers` is how many processes are alive: while Redis is away, each keeps
    that part of the limits.
    """

    judges: Mapping[str, ProviderLimit] = field(default_factory=dict)
    url: str | None = None
    prefix: str = ""
    lease_s: float = 30.0
    first_wait_s: float = 2.0
    longest_wait_s: float = 32.0
    workers: int = 1

    def __post_init__(self) -> None:
        self._state = SharedState(_SCRIPT, self.url)
        # Protects `_held`, and that no lease is renewed after it was given back.
        self._lock = threading.Lock()
        self._held: defaultdict[ProviderLimit, set[str]] = defaultdict(set)

    @contextmanager
    def admitted(self, judge: Judge) -> Iterator[Judge]:
        """Give the judge to ask, once its provider may be called, and note how that went.

        Raises TryLaterError that does not count when it may not be called now. An error that the
        block raises is told to wait at least as long as everybody must.
        """
        limit = self._limit(judge.config.name)
        holder = new_id()
        entered = self._run(limit, "enter", holder)
        if entered.said not in ("granted", "probe"):
            raise TryLaterError(
                _waiting_for(limit, entered), retry_after=entered.wait_s, counts=False
            )
        probes = entered.said == "probe"
        if limit.concurrency is not None or probes:
            with self._lock:
                self._held[limit].add(holder)
        calls = Calls(judge.provider)
        started = time.monotonic()
        failed: TryLaterError | None = None
        try:
            yield replace(judge, provider=calls)
        except TryLaterError as error:
            failed = error
            raise
        finally:
            left = self._leave(limit, holder, calls, started)
            if failed is not None and left.wait_s:
                # A trial whose probe failed lets others try next: it may be what is wrong.
                wait = 2 * left.wait_s if probes else left.wait_s
                failed.retry_after = max(failed.retry_after or 0.0, wait)

    def _leave(self, limit: ProviderLimit, holder: str, calls: Calls, started: float) -> _Reply:
        with self._lock:
            self._held[limit].discard(holder)
        wait = -1 if calls.wait_s is None else _ms(calls.wait_s)
        took = _ms(time.monotonic() - started)
        why = calls.why[:200]
        return self._run(limit, "leave", holder, calls.outcome, calls.made, wait, why, took)

    def rooms(self, judges: Sequence[str], *, ahead_s: float) -> list[Room]:
        """Return for each limit of `judges` how many calls it has room for within `ahead_s`.

        A worker gets its part of the room: all of them ask, and together they must not overshoot.
        """
        names: defaultdict[ProviderLimit, list[str]] = defaultdict(list)
        for name in judges:
            names[self._limit(name)].append(name)
        return [self._room(limit, tuple(names[limit]), ahead_s) for limit in names]

    def _room(self, limit: ProviderLimit, judges: tuple[str, ...], ahead_s: float) -> Room:
        reply = self._run(limit, "look", _ms(ahead_s))
        if reply.said in ("paused", "open"):
            return Room(judges, 0, _waiting_for(limit, reply))
        if reply.room < 0:
            return Room(judges, None)
        # Rounded up or down by chance, right on average.
        calls = int(reply.room / self.workers + random.random())  # noqa: S311
        waiting_for = _waiting_for(limit, reply) if reply.said == "half-open" else None
        return Room(judges, calls, waiting_for)

    def renew(self) -> None:
        """Keep what this process holds from expiring."""
        with self._lock:
            for limit, holders in self._held.items():
                if holders:
                    self._run(limit, "renew", *holders)

    def close(self) -> None:
        self._state.close()

    def _limit(self, judge: str) -> ProviderLimit:
        return self.judges.get(judge) or ProviderLimit(judge)

    def _run(self, limit: ProviderLimit, operation: str, *arguments: str | int) -> _Reply:
        def all_arguments(shared: bool) -> list[str | int | float]:
            parts = 1 if shared else self.workers
            return [
                operation,
                (limit.per_minute or 0) / parts,
                0 if limit.concurrency is None else max(1, limit.concurrency // parts),
                _ms(self.lease_s),
                _ms(self.first_wait_s),
                _ms(self.longest_wait_s),
                *arguments,
            ]

        state = f"{self.prefix}limits:{limit.key}"
        said, wait, why, room = self._state.run([state, f"{state}:leases"], all_arguments)
        return _Reply(cast(Said, said), wait / 1000, why, float(room))


def _waiting_for(limit: ProviderLimit, reply: _Reply) -> str:
    until = datetime.now(UTC) + timedelta(seconds=reply.wait_s)
    match reply.said:
        case "busy":
            return f"the provider takes {limit.concurrency} calls at a time"
        case "fast":
            return f"the provider takes {limit.per_minute:g} calls a minute"
        case "paused":
            return f"provider paused until {until:%H:%M:%S} UTC: {reply.why}"
        case _:
            return f"breaker open, next probe at {until:%H:%M:%S} UTC: {reply.why}"


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
