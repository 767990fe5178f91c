"""`autograder up`: API, worker, broker and database with one command."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from grader_service.cli.broker import broker_arguments
from grader_service.cli.output import err, out
from grader_service.cli.processes import Child, free_port, wait_for_port
from grader_service.cli.serve import require_free, require_loopback, worker_arguments
from grader_service.cli.watchdog import Watchdog
from grader_service.errors import SetupError
from grader_service.settings import Settings
from grader_service.storage.database import Database
from grader_service.storage.migrations import upgrade

if TYPE_CHECKING:
    from collections.abc import Iterator


def up_command(
    port: Annotated[int | None, typer.Option(help="Port of the API; 0 takes a free one.")] = None,
    stub: Annotated[
        bool, typer.Option("--stub", help="Judge with a scripted stub model: no key, no network.")
    ] = False,
    script: Annotated[
        Path | None, typer.Option(help="With --stub: a script of the stub model's answers.")
    ] = None,
) -> None:
    """Run the whole service on this machine until Ctrl-C: API, worker, broker, database.

    Everything is kept in AUTOGRADER_HOME (./.autograder). Without a key and without --stub trials
    are accepted and wait.

    Example: autograder up --stub
    """
    settings = Settings.load()
    require_loopback(settings.host)
    port = settings.port if port is None else port
    port = port or free_port()
    require_free(settings.host, port)
    home = settings.home.absolute()
    home.mkdir(parents=True, exist_ok=True)
    with _alone_in(home):
        database = Database(settings.database)
        upgrade(database)
        database.close()
        settings.secret_bytes()
        _run(settings, home, port, stub=stub, script=script)


@contextmanager
def _alone_in(home: Path) -> Iterator[None]:
    """Hold the home folder's lock: two services on one database would fight over leases."""
    with (home / "up.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SetupError(
                f"another `autograder up` runs in {home}",
                fix="stop it, or set AUTOGRADER_HOME to another folder",
            ) from None
        yield


def _run(settings: Settings, home: Path, port: int, *, stub: bool, script: Path | None) -> None:
    stopping = _stop_signals()
    environment = dict(os.environ) | {"AUTOGRADER_HOME": str(home)}
    started: list[Child] = []
    try:
        if settings.broker_url is None:
            broker_port = free_port()
            broker = Child("broker", broker_arguments(broker_port, home), environment)
            broker.start()
            started.append(broker)
            if not wait_for_port(broker_port):
                raise SetupError(
                    "the embedded broker did not start", fix=f"see {home / 'broker.log'}"
                )
            environment["AUTOGRADER_BROKER_URL"] = f"redis://127.0.0.1:{broker_port}/0"
        if stub:
            url, model = _start_stub(environment, script)
            started.append(model)
            environment["AUTOGRADER_JUDGES"] = json.dumps(
                {"stub": {"provider": "openai", "model": "stub", "base_url": url, "stub": True}}
            )
            environment.pop("AUTOGRADER_DEFAULT_JUDGE", None)
        host = settings.host
        serve = [*(sys.executable, "-m", "grader_service.cli.main", "serve"), "--host", host]
        api = Child("api", [*serve, "--port", str(port)], environment, grace_s=15)
        # One name for each place, so that a restarted worker frees what its predecessor held.
        node = settings.node or "up:worker-1"
        worker = Child(
            "worker",
            worker_arguments(settings.concurrency),
            environment | {"AUTOGRADER_NODE": node},
            # Calls in flight end; leases take over what does not.
            grace_s=30,
            quiet=True,
        )
        for child in (worker, api):
            child.start()
            started.append(child)
        if not wait_for_port(port, host=host):
            raise SetupError("the API did not start", fix="see the lines above")
        _say(settings, home, host, port, stub=stub)
        # One connection, and no long wait for it: the processes must be looked after as well.
        watched = Database(settings.database, pool_size=1, wait_s=1.0)
        watchdog = Watchdog(watched, node, settings.stuck_after_s)
        while not stopping:
            stuck = watchdog.check(running_s=worker.running_s)
            # A deaf one may be in the middle of calls that are paid for.
            grace_s = 0.0 if stuck == "frozen" else worker.grace_s
            if stuck is not None and worker.replace(grace_s=grace_s):
                err.print(f"the worker is {stuck}; starting another one", markup=False)
            for child in started:
                code = child.restart_if_dead()
                if code is not None and not stopping:
                    err.print(f"{child.name} ended with {code}; starting it again", markup=False)
            time.sleep(0.1)
    finally:
        # The API first, so that nothing new comes in; the broker last.
        for child in reversed(started):
            child.stop()


def _stop_signals() -> list[int]:
    """Return a list that the first SIGTERM or SIGINT puts its number into."""
    received: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        received.append(number)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    return received


def _start_stub(environment: dict[str, str], script: Path | None) -> tuple[str, Child]:
    port = free_port()
    arguments = [
        *(sys.executable, "-m", "grader_service.cli.main", "stub-model"),
        *("--port", str(port)),
        *(("--script", str(script)) if script else ()),
    ]
    child = Child("stub model", arguments, environment, quiet=True)
    child.start()
    if not wait_for_port(port):
        child.stop()
        raise SetupError("the stub model did not start", fix="see the lines above")
    return f"http://127.0.0.1:{port}/v1", child


def _say(settings: Settings, home: Path, host: str, port: int, *, stub: bool) -> None:
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    out.print(f"autograder is up at {url} (docs: {url}/docs), data in {home}", markup=False)
    names = list(settings.configured_judges())
    if stub:
        out.print("judge: STUB, a scripted model; its verdicts give no success rate", markup=False)
    elif names:
        out.print(
            f"judges: {', '.join(names)} (default {settings.default_judge_name()})", markup=False
        )
    else:
        out.print("no judge configured: trials are accepted and wait", markup=False)
        err.print(
            "fix: set OPENAI_API_KEY, ANTHROPIC_API_KEY or AUTOGRADER_JUDGES, or use --stub",
            markup=False,
        )
