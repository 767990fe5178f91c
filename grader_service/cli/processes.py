"""Child processes of `autograder up`: started by command line, restarted, and never left behind."""

from __future__ import annotations

import ctypes
import math
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_PR_SET_PDEATHSIG = 1
_FIRST_WAIT_S = 0.2
_LONGEST_WAIT_S = 5.0
# A child that lived so long has started well; its next death begins with a short wait again.
_HEALTHY_S = 10.0


def _die_with_parent() -> None:
    """Ask Linux for SIGTERM when the parent is gone, however it went."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


@dataclass
class Child:
    """One child process. Started from the main thread, since its death signal hangs on it."""

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    # How long it may take to end by itself after SIGTERM.
    grace_s: float = 10.0
    # Drops what it prints to stdout; errors and logs go to stderr.
    quiet: bool = False
    _process: subprocess.Popen[bytes] | None = None
    _started: float = 0.0
    _not_before: float = 0.0
    _kill_at: float = math.inf
    _wait: float = field(default=_FIRST_WAIT_S)

    def start(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603  (our own command lines)
            self.arguments,
            env=dict(self.environment),
            stdout=subprocess.DEVNULL if self.quiet else None,
            # Safe: the parent has no threads, and prctl takes no locks.
            preexec_fn=_die_with_parent,  # noqa: PLW1509
            # A Ctrl-C at the terminal reaches the parent alone, which then stops all in order.
            start_new_session=True,
        )
        self._started = time.monotonic()
        self._kill_at = math.inf

    def restart_if_dead(self) -> int | None:
        """Start it again if it ended, with growing waits; return the exit code it ended with."""
        process, now = self._process, time.monotonic()
        if process is None:
            if now >= self._not_before:
                self.start()
            return None
        code = process.poll()
        if code is None:
            if now >= self._kill_at:
                process.kill()
            return None
        if now - self._started > _HEALTHY_S:
            self._wait = _FIRST_WAIT_S
        self._process = None
        self._not_before = now + self._wait
        self._wait = min(_LONGEST_WAIT_S, 2 * self._wait)
        return code

    def replace(self, *, grace_s: float) -> bool:
        """End it, by force after `grace_s`, for `restart_if_dead` to start it again.

        False when it is being ended already.
        """
        if self._process is None or self._kill_at < math.inf:
            return False
        self._process.terminate()
        self._kill_at = time.monotonic() + grace_s
        return True

    @property
    def running_s(self) -> float:
        """For how long it has been running."""
        return 0.0 if self._process is None else time.monotonic() - self._started

    @property
    def ended(self) -> int | None:
        """The exit code, or None while it runs."""
        return None if self._process is None else self._process.poll()

    def stop(self) -> None:
        """End it: SIGTERM, then SIGKILL after its grace."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(self.grace_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def wait_for_port(port: int, *, host: str = "127.0.0.1", timeout_s: float = 60.0) -> bool:
    """Wait until something listens; False when nothing does in time."""
    give_up = time.monotonic() + timeout_s
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    while time.monotonic() < give_up:
        with socket.socket(family) as probe:
            probe.settimeout(0.5)
            if probe.connect_ex((host, port)) == 0:
                return True
        time.sleep(0.05)
    return False
