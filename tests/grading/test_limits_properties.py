"""Provider limits under any schedule, on a clock that the test moves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from grader_service.grading.calls import Outcome
from grader_service.grading.limits import ProviderLimit, ProviderLimits

START_MS = 1_700_000_000_000


class Clock:
    """The time in whole milliseconds."""

    def __init__(self) -> None:
        self.now = START_MS

    def time(self) -> float:
        return self.now / 1000


@contextmanager
def clock() -> Iterator[Clock]:
    """Give the clock by which limits are kept until the block ends."""
    moved = Clock()
    with patch.object(time, "time", moved.time):
        yield moved


@settings(max_examples=40, deadline=None)
@given(
    per_minute=st.sampled_from([1, 7, 59.5, 60, 61, 600, 6000]),
    steps=st.lists(
        st.tuples(st.integers(0, 3000), st.integers(1, 12), st.integers(0, 3)), max_size=25
    ),
)
def test_no_window_has_more_grants_than_the_rate_and_one_burst(
    per_minute: float, steps: list[tuple[int, int, int]]
) -> None:
    """Each step: let time pass, ask so often, and let each call have made so many."""
    limit = ProviderLimit("k", per_minute=per_minute)
    limits = ProviderLimits({"j": limit})
    grants: list[int] = []
    calls: list[int] = []
    with clock() as moved:
        for passed, asked, made in steps:
            moved.now += passed
            for turn in range(asked):
                if limits._run(limit, "enter", f"h{turn}").said == "granted":
                    grants.append(moved.now)
                    calls.append(made)
                    limits._run(limit, "leave", f"h{turn}", "answered", made, -1, "", 1)
    burst = max(1.0, per_minute / 60)
    for first, start in enumerate(grants):
        for last in range(first, len(grants)):
            allowed = burst + per_minute * (grants[last] - start) / 60_000 + 1e-6
            assert last - first + 1 <= allowed
            # A call that was repeated is paid for by those after it.
            assert sum(max(1, made) for made in calls[first:last]) + 1 <= allowed


@settings(max_examples=40, deadline=None)
@given(
    concurrency=st.integers(1, 4),
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("pass"), st.integers(1, 12_000)),
            st.tuples(st.sampled_from(["enter", "leave", "renew"]), st.integers(0, 9)),
        ),
        max_size=60,
    ),
)
def test_no_more_calls_are_in_flight_than_may_be(
    concurrency: int, steps: list[tuple[str, int]]
) -> None:
    limit = ProviderLimit("k", concurrency=concurrency)
    limits = ProviderLimits({"j": limit}, lease_s=10)
    expires: dict[str, int] = {}
    with clock() as moved:
        for step, number in steps:
            holder = f"h{number}"
            live = sum(at > moved.now for at in expires.values())
            if step == "pass":
                moved.now += number
            elif step == "enter" and holder not in expires:
                said = limits._run(limit, "enter", holder).said
                assert said == ("granted" if live < concurrency else "busy")
                if said == "granted":
                    expires[holder] = moved.now + 10_000
            elif step == "leave":
                expires.pop(holder, None)
                limits._run(limit, "leave", holder, "answered", 1, -1, "", 1)
            elif step == "renew" and expires.get(holder, 0) > moved.now:
                limits._run(limit, "renew", holder)
                expires[holder] = moved.now + 10_000


class Breaker(RuleBasedStateMachine):
    """The pause and the breaker beside a plain model of them."""

    FIRST, LONGEST, LEASE = 1000, 4000, 10_000
    holders = Bundle("holders")

    @initialize()
    def begin(self) -> None:
        self._clock = clock()
        self.moved = self._clock.__enter__()
        self.limit = ProviderLimit("k")
        self.limits = ProviderLimits(
            {"j": self.limit}, first_wait_s=1.0, longest_wait_s=4.0, lease_s=10.0
        )
        self.made = 0
        self.paused_until = self.limited = 0
        self.opened = self.open_until = 0
        self.probe, self.probe_until = "", 0
        self.faults, self.recent = 0, [False] * 0

    def teardown(self) -> None:
        if hasattr(self, "_clock"):
            self._clock.__exit__(None, None, None)

    def growing(self, times: int, longest: int) -> int:
        return int(min(longest, self.FIRST * 2 ** (times - 1)))

    def held_up(self) -> tuple[str, int] | None:
        now = self.moved.now
        if self.paused_until > now:
            return "paused", self.paused_until - now
        if self.opened and self.open_until > now:
            return "open", self.open_until - now
        if self.opened and self.probe_until > now:
            return "open", min(1000, self.probe_until - now)
        return None

    @rule(passed=st.sampled_from([1, 300, 1000, 1700, 4000, 10_000, 60_000]))
    def let_time_pass(self, passed: int) -> None:
        self.moved.now += passed

    @rule()
    def wait_as_told(self) -> None:
        while held_up := self.held_up():
            self.moved.now += held_up[1]

    @rule(target=holders)
    def enter(self) -> str:
        self.made += 1
        holder = f"h{self.made}"
        reply = self.limits._run(self.limit, "enter", holder)
        held_up = self.held_up()
        if held_up is not None:
            assert (reply.said, round(reply.wait_s * 1000)) == held_up
        elif self.opened:
            assert reply.said == "probe"
            self.probe, self.probe_until = holder, self.moved.now + self.LEASE
        else:
            assert reply.said == "granted"
        return holder

    @rule(holder=holders)
    def renew(self, holder: str) -> None:
        self.limits._run(self.limit, "renew", holder)
        if holder == self.probe:
            self.probe_until = self.moved.now + self.LEASE

    @rule(
        # Whoever left before, or was never let in, tells what any late call does.
        holder=holders,
        outcome=st.sampled_from(["answered", "limited", "fault", "fault", "refused", "unasked"]),
        asked=st.sampled_from([-1, -1, 500, 3000]),
    )
    def leave(self, holder: str, outcome: Outcome, asked: int) -> None:
        now = self.moved.now
        if outcome == "limited" and asked < 0 and self.paused_until <= now:
            self.limited += 1
            asked = self.growing(self.limited, self.LONGEST)
        if outcome == "answered":
            self.limited = 0
        if asked > 0:
            self.paused_until = max(self.paused_until, now + asked)
        probing = bool(self.opened) and holder == self.probe
        if probing:
            self.probe, self.probe_until = "", 0
        if (probing or not self.opened) and outcome != "unasked":
            self.learn(outcome, probing=probing)
        reply = self.limits._run(self.limit, "leave", holder, outcome, 1, asked, "why", 1)
        assert (reply.said, round(reply.wait_s * 1000)) == (self.held_up() or ("free", 0))

    def learn(self, outcome: Outcome, *, probing: bool) -> None:
        if outcome == "refused":
            self.open(900_000)
            return
        if outcome != "fault" and probing:
            self.opened, self.recent = 0, []
        self.recent = [*self.recent, outcome == "fault"][-20:]
        self.faults = self.faults + 1 if outcome == "fault" else 0
        if outcome == "fault" and (probing or self.faults >= 8 or sum(self.recent) > 10):
            self.open(self.LONGEST)

    def open(self, longest: int) -> None:
        self.opened += 1
        self.open_until = self.moved.now + self.growing(self.opened, longest)

    @rule(ends=st.lists(st.sampled_from(["fault", "answered", "refused"]), max_size=9))
    def call_one_after_the_other(self, ends: list[Outcome]) -> None:
        for outcome in ends:
            self.wait_as_told()
            self.leave(self.enter(), outcome, -1)

    @invariant()
    def the_pump_sees_the_same(self) -> None:
        if not hasattr(self, "_clock"):
            return
        [room] = self.limits.rooms(["j"], ahead_s=0.1)
        held_up = self.held_up()
        assert (room.calls == 0) == (held_up is not None)
        assert (room.waiting_for is None) == (held_up is None and not self.opened)


TestBreaker = Breaker.TestCase
TestBreaker.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
