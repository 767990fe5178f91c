"""Tells a supervisor when a worker has to be replaced though its process lives."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from grader_service.errors import UnavailableError
from grader_service.storage import workers
from grader_service.storage.database import Database

Stuck = Literal["deaf", "frozen"]


@dataclass
class Watchdog:
    """Watches one worker's row. A process that hangs or hears nothing keeps its pid and sockets."""

    database: Database
    node: str
    after_s: float
    _next: float = 0.0
    _suspect: bool = False

    def check(self) -> Stuck | None:
        """Say what is wrong with the worker. Cheap to call often.

        Deaf: it took no message for `after_s`, though some waited and it had room. Frozen: it shows
        no sign of life at all. Only what is seen twice counts: when the database was away or the
        machine asleep, a healthy worker needs a moment to catch up.
        """
        now = time.monotonic()
        if now < self._next:
            return None
        self._next = now + self.after_s / 6
        stuck = self._look()
        suspect, self._suspect = self._suspect, stuck is not None
        return stuck if suspect else None

    def _look(self) -> Stuck | None:
        try:
            with self.database.read() as unit:
                found = workers.seen(unit, within_s=workers.FORGET_S, node=self.node)
        except UnavailableError:
            return None
        for worker in found:
            if worker.age > self.after_s:
                return "frozen"
            if worker.idle > self.after_s:
                return "deaf"
        return None
