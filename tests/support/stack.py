"""A whole service in real processes: API, workers, Redis, database, and a stub model to ask."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from grader_service.cli.processes import free_port, wait_for_port
from grader_service.cli.serve import worker_arguments
from grader_service.client.http import Client
from grader_service.errors import UnavailableError

ROOT = Path(__file__).parent.parent.parent
AUTOGRADER = [sys.executable, "-m", "grader_service.cli.main"]


def wait_until(condition: Callable[[], Any], *, what: str, timeout_s: float = 60.0) -> Any:
    """Return the condition's first true value; fail the test when none comes in time."""
    give_up = time.monotonic() + timeout_s
    while time.monotonic() < give_up:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"waited {timeout_s:.0f} s in vain for {what}")


@dataclass
class Stack:
    """Processes of one service. What a test starts here ends with it."""

    home: Path
    redis_url: str
    judges: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    # Where the processes write what they say; None is where the tests do.
    output: IO[str] | None = None
    _children: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "AUTOGRADER_HOME": str(self.home),
            "AUTOGRADER_BROKER_URL": self.redis_url,
            "AUTOGRADER_JUDGES": json.dumps(self.judges),
            "AUTOGRADER_RETRY_BASE_S": "0.2",
            **self.settings,
        }

    def migrate(self) -> None:
        subprocess.run(
            [*AUTOGRADER, "migrate"], env=self.environment, check=True, stdout=subprocess.DEVNULL
        )

    def start_api(self) -> None:
        self.spawn_api()
        assert wait_for_port(self.port), "the API did not start"

    def spawn_api(self) -> None:
        """Start the API without waiting for it."""
        self._start("api", [*AUTOGRADER, "serve", "--port", str(self.port)])

    def start_worker(self, name: str = "w1", *, concurrency: int = 8) -> None:
        self._start(
            name, worker_arguments(concurrency), AUTOGRADER_NODE=name,
            AUTOGRADER_CONCURRENCY=str(concurrency),
        )  # fmt: skip

    def _start(self, name: str, arguments: list[str], **environment: str) -> None:
        self._children[name] = subprocess.Popen(
            arguments,
            env=self.environment | environment,
            cwd=ROOT,
            stdout=self.output,
            stderr=self.output,
        )

    def pids(self) -> list[int]:
        return [child.pid for child in self._children.values()]

    def ended(self) -> list[str]:
        """Return the processes that ended by themselves."""
        return [name for name, child in self._children.items() if child.poll() is not None]

    def send(self, name: str, number: signal.Signals) -> None:
        self._children[name].send_signal(number)

    def kill(self, name: str) -> None:
        """Kill a process as a crash would: without a chance to clean up."""
        child = self._children.pop(name)
        child.send_signal(signal.SIGKILL)
        child.wait()

    def stop(self, name: str, *, timeout_s: float = 30.0) -> int:
        """Stop a process gracefully and return its exit code."""
        child = self._children.pop(name)
        child.terminate()
        return child.wait(timeout_s)

    def client(self) -> Client:
        return Client(self.url)

    def wait_for(self, run: str, *, done: int | None = None, timeout_s: float = 90.0) -> Any:
        """Wait until a run has ended (or `done` of its trials have); return its summary."""
        with self.client() as client:

            def ended() -> Any:
                try:
                    summary = client.run(run)
                except UnavailableError:
                    return None
                pending = summary["pending"]["n"]
                enough = pending == 0 if done is None else summary["trials"] - pending >= done
                return summary if enough else None

            return wait_until(ended, what=f"the run {run}", timeout_s=timeout_s)

    def close(self) -> None:
        for child in self._children.values():
            child.kill()
        for child in self._children.values():
            child.wait()


@contextmanager
def running(
    home: Path,
    redis_url: str,
    judges: Mapping[str, Any],
    **settings: str,
) -> Iterator[Stack]:
    """Run an API and a worker `w1` until the block ends."""
    stack = Stack(home, redis_url, judges, settings)
    try:
        stack.migrate()
        stack.start_api()
        stack.start_worker("w1")
        yield stack
    finally:
        stack.close()
