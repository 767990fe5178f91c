"""What a worker process holds: its leases, renewed together, and the gate for dangerous trials."""

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

    @contextlib.contextmanager
    def enter(self, *, alone: bool) -> Iterator[None]:
        with self._condition:
            if alone:
                self._alone_waiting += 1
                self._condition.wait_for(lambda: self._inside == 0)
                self._alone_waiting -= 1
                self._alone = True
            else:
                # Those that wait to be alone go first, or they might wait for ever.
                self._condition.wait_for(lambda: not self._alone and not self._alone_waiting)
            self._inside += 1
        try:
            yield
        finally:
            with self._condition:
                self._inside -= 1
                self._alone = False
                self._condition.notify_all()
