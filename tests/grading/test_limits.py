"""Provider limits on real servers: what all workers together may ask, whoever of them dies."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from grader_service.errors import JudgeError, PermanentError, TryLaterError
from grader_service.grading.limits import ProviderLimit, ProviderLimits, shared_limits
from grader_service.judging.judge import Judge, JudgeConfig
from grader_service.providers.base import Answer, Ask, ProviderConfig, Wire
from grader_service.providers.rate_limits import RateLimit
from tests.support.servers import BROKERS, RedisServer, start_redis
from tests.support.stack import ROOT, wait_until

ASK = Ask(system="", parts=(), rung="text", schema={})
GOOD = Answer("openai.chat", {}, "text", "m", None)


def down() -> TryLaterError:
    return TryLaterError("the endpoint answered 503", status_code=503)


def limited(seconds: float | None = None) -> TryLaterError:
    return TryLaterError("429", retry_after=seconds, counts=False, status_code=429)


class Scripted:
    """A provider that ends each call as it was told to last."""

    wire: Wire = "openai.chat"

    def __init__(self) -> None:
        self.end: Answer | JudgeError = GOOD

    def ask(self, ask: Ask) -> Answer:  # noqa: ARG002  (the port's)
        if isinstance(self.end, JudgeError):
            raise self.end
        return self.end

    def warm(self) -> None: ...

    def close(self) -> None: ...


class Caller:
    """A worker that calls the provider of one judge, as far as its limits let it."""

    def __init__(self, limits: ProviderLimits, name: str = "j") -> None:
        self.limits = limits
        self.provider = Scripted()
        config = ProviderConfig(kind="openai", model="m", base_url="http://127.0.0.1:9/v1")
        self.judge = Judge(JudgeConfig(name, config), self.provider, b"")

    def call(self, end: Answer | JudgeError = GOOD) -> float | None:
        """Make a call that ends so. Return None, or how long to wait if it may not be made."""
        self.provider.end = end
        asked = False
        try:
            with self.limits.admitted(self.judge) as judge:
                asked = True
                judge.provider.ask(ASK)
        except TryLaterError as error:
            return None if asked else error.retry_after
        except JudgeError:
            pass
        return None

    def call_in_time(self, end: Answer | JudgeError = GOOD) -> None:
        """Make a call that ends so, as soon as it may be made."""
        while (wait := self.call(end)) is not None:
            time.sleep(wait)

    def begin(self) -> AbstractContextManager[Judge]:
        """Begin a call that never ends, as long as what is returned is kept."""
        call = self.limits.admitted(self.judge)
        call.__enter__()
        return call

    def break_it(self) -> None:
        """Let calls fail until the breaker opens, and wait until it may be probed."""
        while (wait := self.call(down())) is None:
            pass
        time.sleep(wait)


def make(url: str | None, **changes: Any) -> ProviderLimits:
    numbers = {name: changes.pop(name, None) for name in ("per_minute", "concurrency")}
    given: dict[str, Any] = {"first_wait_s": 0.05, "longest_wait_s": 0.2, "lease_s": 20.0}
    judges = {"j": ProviderLimit("k", **numbers)}
    return noted(ProviderLimits(judges, url=url, prefix="test:", **given | changes))


_made: list[ProviderLimits] = []


def noted(limits: ProviderLimits) -> ProviderLimits:
    _made.append(limits)
    return limits


@pytest.fixture(autouse=True)
def close() -> Iterator[None]:
    """Close what a test made."""
    yield
    while _made:
        _made.pop().close()


@pytest.fixture(scope="module", params=[*BROKERS, "in-process"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RedisServer | None]:
    """Each server that limits are kept on; None is where there is none."""
    if request.param == "in-process":
        yield None
        return
    with start_redis(tmp_path_factory.mktemp("redis"), request.param) as server:
        yield server


@pytest.fixture
def any_url(server: RedisServer | None) -> str | None:
    if server is None:
        return None
    server.flush()
    return server.url


# --- the same on every server -------------------------------------------------------------------


def test_those_who_are_too_fast_come_back_one_after_the_other(any_url: str | None) -> None:
    caller = Caller(make(any_url, per_minute=12))
    assert caller.call() is None
    waits = [caller.call(), caller.call()]
    assert waits[0] is not None
    assert 0 < waits[0] <= 5
    assert waits[1] is not None
    assert waits[0] < waits[1] <= 10


def test_no_more_calls_run_than_may_at_a_time(any_url: str | None) -> None:
    limits = make(any_url, concurrency=2)
    caller = Caller(limits)
    with limits.admitted(caller.judge), limits.admitted(caller.judge):
        assert caller.call() is not None
    assert caller.call() is None


def test_a_rate_limit_makes_everybody_wait_as_long_as_the_provider_says(
    any_url: str | None,
) -> None:
    caller = Caller(make(any_url))
    assert caller.call(limited(30)) is None
    wait = caller.call()
    assert wait is not None
    assert 20 < wait <= 30


def test_a_rate_limit_without_a_time_makes_everybody_wait_longer_each_time(
    any_url: str | None,
) -> None:
    caller = Caller(make(any_url, first_wait_s=0.01, longest_wait_s=0.05))
    told = [limited() for _ in range(5)]
    for error in told:
        caller.call_in_time(error)
    waits = [error.retry_after for error in told]
    assert waits == [pytest.approx(wait) for wait in (0.01, 0.02, 0.04, 0.05, 0.05)]


def test_an_answer_between_two_rate_limits_makes_the_second_like_a_first(
    any_url: str | None,
) -> None:
    caller = Caller(make(any_url, first_wait_s=0.01))
    told = [limited(), limited()]
    for error in told:
        caller.call_in_time(error)
        caller.call_in_time()
    assert [error.retry_after for error in told] == [pytest.approx(0.01)] * 2


def test_refusals_of_calls_that_were_made_together_make_one_pause(any_url: str | None) -> None:
    limits = make(any_url, first_wait_s=60, longest_wait_s=600)
    limit = limits.judges["j"]
    for holder in "abc":
        limits._run(limit, "enter", holder)
    ended = [limits._run(limit, "leave", holder, "limited", 1, -1, "429", 1) for holder in "abc"]
    assert all(0 < reply.wait_s <= 60 for reply in ended)


def test_an_answer_that_leaves_nothing_of_a_limit_makes_everybody_wait(any_url: str | None) -> None:
    caller = Caller(make(any_url))
    used_up = replace(GOOD, rate_limits=(RateLimit("tokens", 0, 40.0),))
    assert caller.call(used_up) is None
    wait = caller.call()
    assert wait is not None
    assert 30 < wait <= 40


def test_eight_faults_in_a_row_stop_all_calls(any_url: str | None) -> None:
    limits = make(any_url, first_wait_s=60)
    caller = Caller(limits)
    assert [caller.call(down()) for _ in range(8)] == [None] * 8
    assert caller.call() is not None
    [room] = limits.rooms(["j"], ahead_s=0.1)
    assert room.calls == 0
    assert str(room.waiting_for).startswith("breaker open")
    assert "503" in str(room.waiting_for)


def test_one_probe_at_a_time_is_let_through_and_its_success_ends_the_wait(
    any_url: str | None,
) -> None:
    caller = Caller(make(any_url))
    caller.break_it()
    [room] = caller.limits.rooms(["j"], ahead_s=0.1)
    assert room.calls in (1, 2)
    with caller.limits.admitted(caller.judge) as judge:
        assert caller.call() is not None
        judge.provider.ask(ASK)
    assert [caller.call() for _ in range(20)] == [None] * 20


def test_a_probe_that_made_no_call_leaves_it_to_the_next(any_url: str | None) -> None:
    caller = Caller(make(any_url))
    caller.break_it()
    with caller.limits.admitted(caller.judge):
        pass
    with caller.limits.admitted(caller.judge):
        assert caller.call() is not None


def test_one_answer_among_faults_keeps_the_calls_going(any_url: str | None) -> None:
    caller = Caller(make(any_url, first_wait_s=60))
    ends = [down() if turn % 20 < 7 else GOOD for turn in range(60)]
    assert [caller.call(end) for end in ends] == [None] * len(ends)


def test_more_than_half_of_twenty_faulty_stop_all_calls(any_url: str | None) -> None:
    caller = Caller(make(any_url, first_wait_s=60))
    ends = [down() if turn % 2 or turn == 18 else GOOD for turn in range(20)]
    assert [caller.call(end) for end in ends] == [None] * 20
    assert caller.call() is not None


def test_half_of_twenty_faulty_stop_no_call(any_url: str | None) -> None:
    caller = Caller(make(any_url, first_wait_s=60))
    ends = [down() if turn % 2 else GOOD for turn in range(40)]
    assert [caller.call(end) for end in ends] == [None] * 40


def test_requests_that_are_refused_one_by_one_stop_nothing(any_url: str | None) -> None:
    caller = Caller(make(any_url))
    refused = PermanentError("400", reason="provider_rejected", status_code=400)
    assert [caller.call(refused) for _ in range(30)] == [None] * 30


@pytest.mark.parametrize(("reason", "status"), [("provider_auth", 401), ("provider_quota", 429)])
def test_a_wrong_key_or_spent_quota_stops_all_calls_at_once(
    any_url: str | None, reason: str, status: int
) -> None:
    caller = Caller(make(any_url, first_wait_s=60))
    assert caller.call(PermanentError("no", reason=reason, status_code=status)) is None
    assert caller.call() is not None


def test_a_key_that_stays_wrong_is_tried_ever_more_seldom(any_url: str | None) -> None:
    limits = make(any_url, first_wait_s=0.01, longest_wait_s=0.05)
    limit = limits.judges["j"]
    waits = []
    for _ in range(5):
        while wait := limits._run(limit, "enter", "h").wait_s:
            time.sleep(wait)
        waits.append(limits._run(limit, "leave", "h", "refused", 1, -1, "401", 1).wait_s)
    assert waits == [pytest.approx(wait) for wait in (0.01, 0.02, 0.04, 0.08, 0.16)]


def test_what_was_faulty_before_an_outage_ended_is_forgotten(any_url: str | None) -> None:
    caller = Caller(make(any_url))
    for turn in range(20):
        caller.call_in_time(down() if turn % 2 or turn == 18 else GOOD)
    caller.call_in_time()
    assert [caller.call(down()) for _ in range(3)] == [None] * 3


def test_each_failed_probe_makes_the_next_one_wait_longer(any_url: str | None) -> None:
    caller = Caller(make(any_url, first_wait_s=0.01, longest_wait_s=0.05))
    opened = [down() for _ in range(8)]
    for error in opened:
        caller.call_in_time(error)
    probed = [down() for _ in range(4)]
    for error in probed:
        caller.call_in_time(error)
    assert opened[-1].retry_after == pytest.approx(0.01)
    # The trial itself waits twice as long as all others, so that one of them goes first.
    waits = [error.retry_after for error in probed]
    assert waits == [pytest.approx(2 * wait) for wait in (0.02, 0.04, 0.05, 0.05)]


# --- shared by threads, processes and lives -----------------------------------------------------


def assert_rate_is_kept(grants: list[tuple[float, float]], *, per_minute: float) -> None:
    """Check every window: `grants` are times just before and just after each was asked for."""
    grants = sorted(grants)
    burst = max(1.0, per_minute / 60)
    for first, (start, _) in enumerate(grants):
        for last in range(first, len(grants)):
            window = max(end for _, end in grants[first : last + 1]) - start
            # The server's clock counts whole milliseconds.
            assert last - first + 1 <= burst + per_minute / 60 * (window + 0.001)


def test_sixteen_threads_together_keep_the_rate(redis_url: str) -> None:
    grants: list[tuple[float, float]] = []
    caller = Caller(make(redis_url, per_minute=1800))
    stop = time.monotonic() + 1.5

    def work(_: int) -> None:
        while time.monotonic() < stop:
            before = time.monotonic()
            wait = caller.call()
            if wait is None:
                grants.append((before, time.monotonic()))
            else:
                time.sleep(min(wait, 0.02))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(16)))
    assert len(grants) > 30
    assert_rate_is_kept(grants, per_minute=1800)


_CALLER = """
import json, sys, time
from tests.grading.test_limits import Caller, make
caller = Caller(make(sys.argv[1], per_minute=1200, concurrency=3))
sys.stdin.readline()
calls, stop = [], time.monotonic() + 1.5
while time.monotonic() < stop:
    before = time.monotonic()
    try:
        with caller.limits.admitted(caller.judge) as judge:
            granted = time.monotonic()
            time.sleep(0.03)
            ended = time.monotonic()
    except Exception as refused:
        time.sleep(0.01)
    else:
        calls.append((before, granted, ended))
print(json.dumps(calls))
"""


def test_processes_together_keep_rate_and_concurrency(redis_url: str) -> None:
    command = [sys.executable, "-c", _CALLER, redis_url]
    children = [
        subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    calls = [call for child in children for call in json.loads(child.communicate()[0])]
    assert len(calls) > 20
    assert_rate_is_kept([(before, granted) for before, granted, _ in calls], per_minute=1200)
    # CLOCK_MONOTONIC is the machine's, so the times of its processes compare.
    begins = [(granted, 1) for _, granted, _ in calls]
    ends = [(ended, -1) for _, _, ended in calls]
    running = most = 0
    for _, step in sorted(begins + ends, key=lambda change: (change[0], change[1])):
        running += step
        most = max(most, running)
    assert most <= 3


def test_what_one_worker_learns_all_workers_keep(redis_url: str) -> None:
    one, other = Caller(make(redis_url)), Caller(make(redis_url))
    one.call(limited(30))
    assert other.call() is not None


def test_other_models_go_on(redis_url: str) -> None:
    judges = {"j": ProviderLimit("k"), "other": ProviderLimit("l")}
    limits = noted(ProviderLimits(judges, url=redis_url, prefix="test:"))
    Caller(limits).call(limited(30))
    assert Caller(limits, "other").call() is None
    rooms = {room.judges: room.calls for room in limits.rooms(["j", "other"], ahead_s=0.1)}
    assert rooms == {("j",): 0, ("other",): None}


def test_services_that_share_a_redis_keep_their_limits_apart(redis_url: str) -> None:
    Caller(make(redis_url)).call(limited(30))
    assert Caller(noted(replace(make(redis_url), prefix="other:"))).call() is None


def test_a_killed_worker_holds_its_part_for_no_longer_than_a_lease(redis_url: str) -> None:
    killed = Caller(make(redis_url, concurrency=1, lease_s=1.0)).begin()
    caller = Caller(make(redis_url, concurrency=1))
    assert caller.call() is not None
    wait_until(lambda: caller.call() is None, what="the lease to expire", timeout_s=20)
    del killed


def test_a_killed_worker_takes_no_probe_to_its_grave(redis_url: str) -> None:
    caller = Caller(make(redis_url, lease_s=1.0))
    caller.break_it()
    killed = caller.begin()
    other = Caller(make(redis_url))
    assert other.call() is not None
    wait_until(lambda: other.call() is None, what="the lease to expire", timeout_s=20)
    del killed


def test_a_long_call_keeps_its_part_while_its_worker_lives(redis_url: str) -> None:
    limits = make(redis_url, concurrency=1, lease_s=1.0)
    caller = Caller(make(redis_url, concurrency=1))
    with limits.admitted(Caller(limits).judge):
        for _ in range(15):
            limits.renew()
            assert caller.call() is not None
            time.sleep(0.1)


def test_a_long_probe_stays_the_only_one_while_its_worker_lives(redis_url: str) -> None:
    caller = Caller(make(redis_url, lease_s=1.0))
    other = Caller(make(redis_url))
    caller.break_it()
    probe = caller.begin()
    for _ in range(15):
        caller.limits.renew()
        assert other.call() is not None
        time.sleep(0.1)
    del probe


def test_a_part_that_was_given_back_is_not_renewed(redis_url: str) -> None:
    limits = make(redis_url, concurrency=1)
    with limits.admitted(Caller(limits).judge):
        pass
    limits.renew()
    assert Caller(limits).call() is None


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis of its own: these tests stop it."""
    with start_redis(tmp_path) as server:
        yield server


def test_while_redis_is_away_each_worker_keeps_its_part_and_then_all_again(
    redis: RedisServer,
) -> None:
    limits = make(redis.url, concurrency=4)
    limits.workers = 2
    caller = Caller(limits)
    redis.stop()
    held = [caller.begin(), caller.begin()]
    assert caller.call() is not None
    del held
    redis.start()
    other = Caller(make(redis.url))

    def shared() -> bool:
        caller.call(limited(30))
        return other.call() is not None

    wait_until(shared, what="the limits to be shared again", timeout_s=20)


def test_calls_that_outlive_redis_count_again_when_it_is_back(redis: RedisServer) -> None:
    limits = make(redis.url, concurrency=1)
    with limits.admitted(Caller(limits).judge):
        redis.stop()
        redis.start()
        other = Caller(make(redis.url, concurrency=1))

        def counted() -> bool:
            limits.renew()
            return other.call() is not None

        wait_until(counted, what="the call in flight to count again", timeout_s=20)


def test_a_call_costs_one_round_trip_before_and_one_after(
    redis_url: str, redis_server: RedisServer
) -> None:
    caller = Caller(make(redis_url, per_minute=60_000, concurrency=100))
    caller.call()
    with Redis(port=redis_server.port) as redis:
        redis.config_resetstat()
        for _ in range(50):
            caller.call()
        commands: dict[str, Any] = redis.info("commandstats")
    assert commands["cmdstat_evalsha"]["calls"] == 100
    sent = {"cmdstat_evalsha", "cmdstat_config|resetstat", "cmdstat_info"}
    inside = {"time", "hgetall", "hset", "pexpire", "zadd", "zrem", "zcard", "zremrangebyscore"}
    assert commands.keys() <= sent | {f"cmdstat_{name}" for name in inside}


def test_no_key_is_kept_in_redis(redis_url: str, redis_server: RedisServer) -> None:
    config = ProviderConfig(kind="openai", model="m", api_key="sk-very-secret")
    judges = {"j": ProviderLimit.of(config, 60, 1)}
    Caller(noted(ProviderLimits(judges, url=redis_url, prefix="test:"))).call(down())
    with Redis(port=redis_server.port, decode_responses=True) as redis:
        keys = redis.keys("*")
        state = redis.hgetall(next(key for key in keys if not key.endswith(":leases")))
    assert keys
    assert "very-secret" not in json.dumps([keys, state])


# --- which limit a judge has --------------------------------------------------------------------


def config(**changes: Any) -> ProviderConfig:
    given: dict[str, Any] = {"kind": "openai", "model": "m", "api_key": "k"}
    return ProviderConfig(**given | changes)


def test_judges_of_one_model_share_the_strictest_of_their_limits() -> None:
    limits = shared_limits(
        {
            "quick": ProviderLimit.of(config(), 60, None),
            "careful": ProviderLimit.of(config(effort="high"), 90, 4),
            "other": ProviderLimit.of(config(model="n"), None, None),
        }
    )
    assert limits["quick"] == limits["careful"]
    assert (limits["quick"].per_minute, limits["quick"].concurrency) == (60, 4)
    assert (limits["other"].per_minute, limits["other"].concurrency) == (None, None)


def test_a_new_key_is_not_held_up_by_what_the_old_one_was_refused_for() -> None:
    old, new = config(), config(api_key="new")
    assert ProviderLimit.of(old, None, None).key != ProviderLimit.of(new, None, None).key


def test_workers_together_publish_about_as_much_as_there_is_room_for(redis_url: str) -> None:
    limits = make(redis_url, concurrency=2)
    limits.workers = 4
    rooms = [room.calls or 0 for _ in range(200) for room in limits.rooms(["j"], ahead_s=0.001)]
    assert set(rooms) == {0, 1}
    assert 50 < sum(rooms) < 150


def test_what_may_be_called_within_a_pumps_round_has_room(redis_url: str) -> None:
    limits = make(redis_url, per_minute=600)
    caller = Caller(limits)
    assert [caller.call() for _ in range(10)] == [None] * 10
    [room] = limits.rooms(["j"], ahead_s=1.0)
    assert room.calls is not None
    assert 10 <= room.calls <= 21
