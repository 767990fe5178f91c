"""Grade a thousand trials while everything that can die dies, and check that nothing is lost.

    python -m tests.chaos.run [--seed 0] [--trials 1000] [--minutes 3] [--sqlite] [--json]

Real processes: the API, three workers, a Redis that keeps nothing on disk, PostgreSQL, and a stub
model that fails 15 % of its calls in every transient way, at most three times for one trial. Every
few seconds one of: a worker is killed and started again; Redis is restarted, empty; the API is
killed and started again, while the client repeats what was not acknowledged; the database crashes
and is gone for 3 s; a worker is frozen until after its leases have gone to others, then wakes up.

The last line is

    submitted=… graded=… abstained=… ungraded=… duplicates=… lost=… paid_calls=… bound=…

and the exit status is 1 unless nothing is lost, doubled or ungraded, every verdict is the one that
an undisturbed run gives, and paid_calls ≤ bound = verdicts + faults + (worker kills + freezes +
database stops) · concurrency of a worker.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

import httpx2

from grader_service.client.http import Client
from grader_service.errors import UnavailableError
from grader_service.storage.database import Database
from tests.chaos.account import Account, settle
from tests.chaos.databases import StoppableDatabase, stoppable_database
from tests.chaos.trials import Trial, make_trial, oracle
from tests.support.servers import RedisServer, start_redis
from tests.support.stack import AUTOGRADER, ROOT, Stack

# Each way in which a call may fail and a later one may not; together 15 %.
FAULTS: Final = (
    *("429;ra=0.3", "429", "408", "409", "500", "502", "503;ra=0.3", "504", "529"),
    *("rst", "rst_mid", "short", "close", "error_200", "hang"),
)
FAULT_SHARE: Final = 0.15
SUBMITTERS: Final = 6
WORKERS: Final = ("w1", "w2", "w3")
KINDS: Final = ("worker killed", "redis restarted", "api killed", "database stopped", "frozen")
# Those that may make a call be repeated: as many as one worker has in flight.
REPEATING: Final = ("worker killed", "database stopped", "frozen")


@dataclass(frozen=True)
class Plan:
    """How much, how fast and how long. Times in seconds; `seconds` is for everything.

    Submitting and disturbing begin when everything is up. The lease outlasts a database stop, and
    a freeze outlasts the lease.
    """

    seed: int = 0
    trials: int = 1000
    seconds: float = 180.0
    submit_for: float = 75.0
    disturb_for: float = 105.0
    sqlite: bool = False
    concurrency: int = 4
    latency: float = 0.5
    lease: float = 8.0
    database_stop: float = 3.0
    freeze: float = 11.0
    pause: tuple[float, float] = (3.0, 6.0)


def run(plan: Plan, folder: Path, *, log: Callable[[str], None] = lambda _: None) -> Account:
    """Do one run in an empty folder and return what it came to."""
    start = time.monotonic()
    with ExitStack() as parts:
        model_url = parts.enter_context(stub_model(plan))
        redis = parts.enter_context(start_redis(folder))
        database = parts.enter_context(stoppable_database(sqlite=plan.sqlite, folder=folder))
        output = parts.enter_context((folder / "service.log").open("w"))
        stack = Stack(
            folder,
            redis.url,
            {"m": _judge(model_url)},
            {
                "AUTOGRADER_DATABASE_URL": database.url,
                "AUTOGRADER_LEASE_S": str(plan.lease),
                "AUTOGRADER_STALE_S": "5",
                "AUTOGRADER_RETRY_CAP_S": "2",
            },
            output=output,
        )
        parts.callback(stack.close)
        stack.migrate()
        for name in WORKERS:
            stack.start_worker(name, concurrency=plan.concurrency)
        stack.start_api()
        log("everything is up")
        begun, end = time.monotonic(), start + plan.seconds
        submitter = Submitter(plan, stack.url)
        chaos = Chaos(plan, stack, redis, database, log)
        submitter.start()
        try:
            while time.monotonic() < end and (
                time.monotonic() < begun + plan.disturb_for or len(chaos.done) < len(KINDS)
            ):
                chaos.step()
                time.sleep(0.02)
        finally:
            chaos.calm()
        log("no more disturbances")
        submitter.stop(until=end)
        _wait_for_the_rest(stack, until=end)
        asked = httpx2.get(f"{model_url.removesuffix('/v1')}/__log", trust_env=False).json()
        reader = Database(database.url)
        parts.callback(reader.close)
        account = settle(
            reader,
            expected=submitter.acknowledged,
            asked=asked,
            disturbances=chaos.done,
            allowance=plan.concurrency * sum(chaos.done[kind] for kind in REPEATING),
            seconds=time.monotonic() - start,
        )
        if account.submitted < plan.trials:
            account.problems.append(f"only {account.submitted} of {plan.trials} were submitted")
        account.problems += [f"{name} ended by itself" for name in stack.ended()]
        return account


def _judge(url: str) -> dict[str, Any]:
    # The deadline ends a call that hangs; its lease is renewed all the while.
    return {"provider": "openai", "model": "m", "base_url": url, "stub": True, "deadline_s": 4}


@contextmanager
def stub_model(plan: Plan) -> Iterator[str]:
    """Run the stub model in a process of its own; give its URL."""
    share = FAULT_SHARE / len(FAULTS)
    faults = ",".join([*(f"{fault}:{share}" for fault in FAULTS), "max=3"])
    child = subprocess.Popen(
        [
            *(*AUTOGRADER, "stub-model", "--latency", str(plan.latency)),
            *("--faults", faults, "--seed", str(plan.seed)),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        yield child.stdout.readline().strip()
    finally:
        child.terminate()
        child.communicate()


class Submitter:
    """Submits all trials, evenly over its time, each until it is acknowledged."""

    def __init__(self, plan: Plan, url: str) -> None:
        self._plan = plan
        self._url = url
        self._start = time.monotonic()
        self._give_up = threading.Event()
        self._numbers = iter(range(plan.trials))
        # Several, so that they catch up after the API was away.
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(SUBMITTERS)]
        # The verdict of an undisturbed run for each acknowledged trial, by client id.
        self.acknowledged: dict[str, str] = {}

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self, *, until: float) -> None:
        """Wait for the end, at most until a time of the monotonic clock."""
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        self._give_up.set()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        with Client(self._url, timeout_s=10) as client, oracle() as undisturbed:
            for number in self._numbers:
                trial = make_trial(self._plan.seed, number)
                expected = undisturbed.verdict(trial)
                due = self._start + self._plan.submit_for * number / self._plan.trials
                if self._give_up.wait(max(0.0, due - time.monotonic())):
                    return
                if self._submit(client, trial):
                    self.acknowledged[trial.client_id] = expected

    def _submit(self, client: Client, trial: Trial) -> bool:
        while not self._give_up.is_set():
            try:
                client.submit(trial.form, trial.frames)
            except UnavailableError:
                self._give_up.wait(0.1)
            else:
                return True
        return False


@dataclass
class Chaos:
    """Disturbs, one thing after the other: all kinds in random order, then all of them again."""

    plan: Plan
    stack: Stack
    redis: RedisServer
    database: StoppableDatabase
    log: Callable[[str], None]
    done: Counter[str] = field(default_factory=Counter)
    _queue: list[str] = field(default_factory=list)
    # What puts things right again: (when, number, action).
    _repairs: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _frozen: set[str] = field(default_factory=set)
    _next: float = 0.0
    _numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self._random = random.Random(self.plan.seed)
        self._next = time.monotonic() + self.plan.pause[1]

    def step(self) -> None:
        """Do what is due: first put right, then disturb, with a pause after either."""
        if self._repairs and self._repairs[0][0] <= time.monotonic():
            heapq.heappop(self._repairs)[2]()
            self._next = max(self._next, time.monotonic() + self.plan.pause[0])
        elif time.monotonic() >= self._next:
            self._disturb()
            self._next = time.monotonic() + self._random.uniform(*self.plan.pause)

    def calm(self) -> None:
        """Put everything right that is still disturbed."""
        while self._repairs:
            when, _, repair = heapq.heappop(self._repairs)
            time.sleep(max(0.0, when - time.monotonic()))
            repair()

    def _disturb(self) -> None:
        if not self._queue:
            self._queue = self._random.sample(KINDS, len(KINDS))
        kind = self._queue.pop()
        self.log(kind)
        self.done[kind] += 1
        match kind:
            case "worker killed":
                name = self._awake()
                self.stack.kill(name)
                self.stack.start_worker(name, concurrency=self.plan.concurrency)
            case "redis restarted":
                self.redis.stop()
                self._later(0.5, "redis is back", self.redis.start)
            case "api killed":
                self.stack.kill("api")
                self._later(0.5, "api is back", self.stack.spawn_api)
            case "database stopped":
                self.database.stop()
                self._later(self.plan.database_stop, "database is back", self.database.start)
            case _:
                name = self._awake()
                self._frozen.add(name)
                self.stack.send(name, signal.SIGSTOP)
                self._later(self.plan.freeze, f"{name} wakes up", lambda: self._wake(name))

    def _awake(self) -> str:
        return self._random.choice([name for name in WORKERS if name not in self._frozen])

    def _wake(self, name: str) -> None:
        self._frozen.discard(name)
        self.stack.send(name, signal.SIGCONT)

    def _later(self, seconds: float, what: str, repair: Callable[[], None]) -> None:
        def put_right() -> None:
            repair()
            self.log(what)

        heapq.heappush(self._repairs, (time.monotonic() + seconds, next(self._numbers), put_right))


def _wait_for_the_rest(stack: Stack, *, until: float) -> None:
    with stack.client() as client:
        while time.monotonic() < until:
            try:
                if client.run("chaos")["pending"]["n"] == 0:
                    return
            except UnavailableError:
                pass
            time.sleep(0.3)


def _say(line: str) -> None:
    print(time.strftime("%H:%M:%S"), line, file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trials", type=int, default=Plan.trials)
    parser.add_argument("--minutes", type=float, default=3.0, help="the most that it may take")
    parser.add_argument("--sqlite", action="store_true", help="SQLite instead of PostgreSQL")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    arguments = parser.parse_args()
    scale = arguments.minutes / 3
    plan = Plan(
        seed=arguments.seed,
        trials=arguments.trials,
        seconds=scale * Plan.seconds,
        submit_for=scale * Plan.submit_for,
        disturb_for=scale * Plan.disturb_for,
        sqlite=arguments.sqlite,
    )
    folder = Path(tempfile.mkdtemp(prefix="autograder-chaos-"))
    account = run(plan, folder, log=_say)
    for problem in account.problems[:20]:
        print(f"error: {problem}", file=sys.stderr)
    if account.problems:
        print(f"fix: the logs are in {folder}", file=sys.stderr)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(account.to_dict()) if arguments.json else account.line)
    return 1 if account.problems else 0


if __name__ == "__main__":
    sys.exit(main())
