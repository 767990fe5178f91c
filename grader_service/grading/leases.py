"""What a worker process holds: leases, renewed together, threads, a gate for dangerous trials."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from grader_service.storage import gradings
from grader_service.storage.database import Database


class Leases:
    """The rows that this process is working on. Thread-safe."""

    def __init__(self, database: Database, *, lease_s: float) -> None:
        self.lease_s = lease_s
        self._database = database
        # Protects `_held`: pool threads add and remove, the heartbeat reads.
        self._lock = threading.Lock()
        self._held: dict[str, str] = {}

    @contextlib.contextmanager
    def hold(self, claim: gradings.Claim) -> Iterator[None]:
        """Keep a claim's lease alive until the block ends."""
        with self._lock:
            self._held[claim.id] = claim.token
        try:
            yield
        finally:
            with self._lock:
                if self._held.get(claim.id) == claim.token:
                    del self._held[claim.id]

    def __len__(self) -> int:
        with self._lock:
            return len(self._held)

    def renew(self) -> None:
        """Renew every lease in one statement. A lost one is found out by its late write."""
        with self._lock:
            held = dict(self._held)
        if held:
            with self._database.write() as unit:
                gradings.renew(unit, held, lease_s=self.lease_s)


class Slots:
    """The threads of this process that messages are worked on in. Thread-safe."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._lock = threading.Lock()
        self._taken = 0
        self._busy = 0

    @contextlib.contextmanager
    def take(self) -> Iterator[None]:
        """Work on one message until the block ends."""
        with self._lock:
            self._taken += 1
            self._busy += 1
        try:
            yield
        finally:
            with self._lock:
                self._busy -= 1

    @property
    def taken(self) -> int:
        """How many messages were ever taken."""
        return self._taken

    @property
    def busy(self) -> int:
        return self._busy

    @property
    def free(self) -> int:
        return max(0, self.size - self._busy)


class Gate:
    """Lets many trials through together, or one alone.

    A trial that was running when its worker died, and did so again, may be what kills it. Alone in
    the process it can take no other trial along.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._inside = 0
        self._alone = False
        self._alone_waiting = 0
        self._closed = False

    def close(self) -> None:
        """Let nobody in any more: a worker that stops must not begin what it still could leave."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    @contextlib.contextmanager
    def enter(self, *, alone: bool) -> Iterator[bool]:
        """Wait to be let in, and stay until the block ends. Gives False once the gate is closed."""
        with self._condition:
            if alone:
                self._alone_waiting += 1
                self._condition.wait_for(lambda: self._closed or self._inside == 0)
                self._alone_waiting -= 1
            else:
                # Those that wait to be alone go first, or they might wait for ever.
                self._condition.wait_for(
                    lambda: self._closed or not (self._alone or self._alone_waiting)
                )
            closed = self._closed
            if not closed:
                self._alone = alone
                self._inside += 1
        if closed:
            yield False
            return
        try:
            yield True
        finally:
            with self._condition:
                self._inside -= 1
                self._alone = False
                self._condition.notify_all()
