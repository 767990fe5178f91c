"""The pump: publishes due gradings, takes back what dead workers held, keeps leases alive."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from grader_service.errors import UnavailableError
from grader_service.grading.leases import Leases
from grader_service.grading.queue import Queue
from grader_service.records.verdict import Decision
from grader_service.storage import gradings, verdicts, workers
from grader_service.storage.database import Database

_log = logging.getLogger(__name__)


@dataclass
class Pump:
    """One worker process's background rounds. Any number of pumps may run at once."""

    database: Database
    queue: Queue
    leases: Leases
    node: str
    boot_id: str
    judges: list[str]
    concurrency: int
    every_s: float
    stale_s: float
    _stop: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Register the worker and start pumping and renewing in two threads."""
        with self.database.write() as unit:
            freed = workers.boot(unit, node=self.node, boot_id=self.boot_id, judges=self.judges)
        if freed:
            _log.warning("took back %d gradings of an earlier %s", freed, self.node)
        # A quarter of the lease: three renewals may fail before it is lost. Never stopped: what is
        # in flight at a graceful stop needs its leases to the end.
        _start("heartbeat", self.leases.renew, self.leases.lease_s / 4, threading.Event())
        _start("pump", self.round, self.every_s, self._stop)

    def stop(self) -> None:
        """Publish nothing more."""
        self._stop.set()

    def round(self) -> int:
        """Do one round and return how many gradings were published."""
        with self.database.write() as unit:
            workers.tick(unit, node=self.node, boot_id=self.boot_id, in_flight=len(self.leases))
            for grading_id in gradings.expire_leases(unit):
                trial_id = gradings.end_lost(unit, grading_id)
                if trial_id is not None:
                    verdicts.append(
                        unit,
                        trial_id=trial_id,
                        grading_id=grading_id,
                        source="service",
                        decision=Decision.ungraded("worker_lost"),
                        note=f"{gradings.MAX_LOST_LEASES} workers died on this trial",
                    )
        if self.queue.lost_data():
            with self.database.write() as unit:
                gradings.unpublish(unit)
        # The rest stays in the database, which knows about fairness and loses nothing.
        room = 4 * self.concurrency - self.queue.depth()
        if room <= 0:
            return 0
        with self.database.write() as unit:
            due = gradings.publish_due(unit, judges=self.judges, limit=room, stale_s=self.stale_s)
        if not due:
            return 0
        try:
            self.queue.publish(due)
        except UnavailableError:
            with self.database.write() as unit:
                gradings.unpublish(unit, due)
            raise
        return len(due)


def _start(name: str, round_: Callable[[], object], every_s: float, stop: threading.Event) -> None:
    def repeat() -> None:
        while not stop.wait(every_s):
            try:
                round_()
            except UnavailableError as error:
                _log.warning("%s", error.message)
            except Exception:  # noqa: BLE001
                # A thread that ends here would leave the worker deaf; the next round may succeed.
                _log.exception("a round of the %s failed", name)

    threading.Thread(target=repeat, name=name, daemon=True).start()
