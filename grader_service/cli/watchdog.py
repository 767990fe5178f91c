"""Tells a supervisor when a worker has to be replaced though its process lives."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final, Literal

from grader_service.errors import UnavailableError
from grader_service.storage import probe, workers
from grader_service.storage.database import Database

Stuck = Literal["deaf", "frozen"]

# How long a worker may take from its start to its first sign of life.
BOOT_S: Final = 60.0


@dataclass
class Watchdog:
    """Watches one worker's row. A process that hangs or hears nothing keeps its pid and sockets."""

    database: Database
    node: str
    after_s: float
    _next: float = 0.0
    _suspect: bool = False

    def check(self, *, running_s: float) -> Stuck | None:
        """Say what is wrong with a worker that was started `running_s` ago. Cheap to call often.

        Deaf: it took no message for `after_s`, though some waited and it had room. Frozen: it shows
        no sign of life at all. Only what is seen twice counts: when the database was away or the
        machine asleep, a healthy worker needs a moment to catch up.
        """
        now = time.monotonic()
        if now < self._next:
            return None
        self._next = now + self.after_s / 6
        stuck = self._look(running_s)
        suspect, self._suspect = self._suspect, stuck is not None
        return stuck if suspect else None

    def _look(self, running_s: float) -> Stuck | None:
        try:
            # A sign of life is a write: where nobody can write, a worker can't show any.
            with self.database.write() as unit:
                probe.write(unit)
                found = workers.seen(unit, within_s=workers.FORGET_S, node=self.node)
        except UnavailableError:
            return None
        # What is older than the process is its predecessor's.
        own = [worker for worker in found if worker.age < running_s]
        if not own:
            return "frozen" if running_s > max(BOOT_S, self.after_s) else None
        if own[0].age > self.after_s:
            return "frozen"
        return "deaf" if own[0].idle > self.after_s else None
