"""The pump: publishes due gradings, takes back what dead workers held, keeps leases alive."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from grader_service.errors import UnavailableError
from grader_service.grading.leases import Leases, Slots
from grader_service.grading.limits import ProviderLimits, Room
from grader_service.grading.queue import Queue
from grader_service.records.verdict import Decision
from grader_service.storage import gradings, publishing, verdicts, workers
from grader_service.storage.database import Database, Unit

_log = logging.getLogger(__name__)


# How soon a round is tried again that the database or the broker did not let through.
_AGAIN_S: Final = 1.0


@dataclass
class Pump:
    """One worker process's background rounds. Any number of pumps may run at once."""

    database: Database
    queue: Queue
    leases: Leases
    slots: Slots
    node: str
    boot_id: str
    judges: list[str]
    every_s: float
    stale_s: float
    limits: ProviderLimits = field(default_factory=ProviderLimits)
    _stop: threading.Event = field(default_factory=threading.Event)
    # What the last round found, told with the next one's tick.
    _taken: int = 0
    _waiting: int = 0
    _trouble: str | None = None
    _lost: bool = False
    # When the last round was made, and when the last gap between two rounds ended.
    _last_round: float = math.inf
    _gap_ended: float = -math.inf

    def start(self) -> None:
        """Register the worker, once the database is there, and start pumping and renewing."""
        freed = self._register()
        if freed:
            _log.warning("took back %d gradings of an earlier %s", freed, self.node)
        # A quarter of the lease: three renewals may fail before it is lost. Never stopped: what is
        # in flight at a graceful stop needs its leases to the end.
        _start("heartbeat", self.leases.renew, self.leases.lease_s / 4, threading.Event())
        _start("limits", self.limits.renew, self.limits.lease_s / 4, threading.Event())
        _start("pump", self.round, self.every_s, self._stop)

    def _register(self) -> int:
        said = None
        while True:
            try:
                with self.database.write() as unit:
                    freed = workers.boot(
                        unit, node=self.node, boot_id=self.boot_id, judges=self.judges
                    )
                if said is not None:
                    # The others have not been able to renew either.
                    self._gap_ended = time.monotonic()
                return freed
            except UnavailableError as error:
                if error.message != said:
                    _log.warning("the worker waits to start: %s", error)
                said = error.message
                time.sleep(1)

    def stop(self) -> None:
        """Publish nothing more."""
        self._stop.set()

    def leave(self) -> None:
        """Take the worker off the list, once nothing is in flight any more."""
        with self.database.write() as unit:
            workers.leave(unit, node=self.node, boot_id=self.boot_id)

    def round(self) -> int:
        """Do one round and return how many gradings were published."""
        try:
            published = self._round()
        except UnavailableError as error:
            self._trouble = error.message
            raise
        self._trouble = None
        return published

    def _progress(self) -> bool:
        """Say whether a message came in since the last round, or none could.

        None can where none waits or every thread is at work. Otherwise the worker is deaf.
        """
        before, self._taken = self._taken, self.slots.taken
        return self._taken > before or self._waiting == 0 or self.slots.free == 0

    def _round(self) -> int:
        rooms = self.limits.rooms(self.judges, ahead_s=2 * self.every_s)
        with self.database.write() as unit:
            self.limits.workers = max(1, len(workers.seen(unit, within_s=workers.ALIVE_S)))
            workers.tick(
                unit,
                node=self.node,
                boot_id=self.boot_id,
                in_flight=self.slots.busy,
                progress=self._progress(),
                trouble=self._trouble,
                paused=_paused(rooms),
            )
            if self._no_gap():
                self._take_back(unit)
        self._waiting = 0
        # Told once only: remembered until it is acted on.
        self._lost = self.queue.lost_data() or self._lost
        if self._lost:
            with self.database.write() as unit:
                publishing.unpublish(unit)
            self._lost = False
        self._waiting = self.queue.depth()
        # The rest stays in the database, which knows about fairness and loses nothing.
        room = 4 * self.slots.size - self._waiting
        if room <= 0:
            return 0
        with self.database.write() as unit:
            due = self._publish_due(unit, rooms, room)
        if not due:
            return 0
        try:
            self.queue.publish(due)
        except UnavailableError:
            with self.database.write() as unit:
                publishing.unpublish(unit, due)
            raise
        return len(due)

    def _no_gap(self) -> bool:
        """Say whether the database has been there for long enough to take leases back.

        When it was away, leases have run out although nobody died, and taking them back would pay
        once more for everything in flight. Each worker renews four times in a lease, so a gap of
        half a lease does no harm, and half a lease later everybody alive has renewed.
        """
        now, half = time.monotonic(), self.leases.lease_s / 2
        if now - self._last_round > half + 2 * self.every_s:
            self._gap_ended = now
        self._last_round = now
        return now - self._gap_ended > half

    def _take_back(self, unit: Unit) -> None:
        """Return what dead workers held to the queue; end what has killed its last one."""
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

    def _publish_due(self, unit: Unit, rooms: list[Room], most: int) -> list[str]:
        """Mark what is due as published: of each provider no more than its limits have room for.

        Providers share the `most` that may be published alike.
        """
        due: list[str] = []
        for turn, room in enumerate(random.sample(rooms, len(rooms))):
            share = math.ceil((most - len(due)) / (len(rooms) - turn))
            limit = share if room.calls is None else min(share, room.calls)
            if limit > 0:
                due += publishing.publish_due(
                    unit, judges=room.judges, limit=limit, stale_s=self.stale_s
                )
        return due


def _paused(rooms: list[Room]) -> dict[str, str]:
    """Return what keeps judges from being asked, by judge."""
    return {
        judge: room.waiting_for
        for room in rooms
        if room.waiting_for is not None
        for judge in room.judges
    }


def _start(name: str, round_: Callable[[], object], every_s: float, stop: threading.Event) -> None:
    def repeat() -> None:
        said, pause_s = None, every_s
        while not stop.wait(pause_s):
            pause_s = every_s
            try:
                round_()
                said = None
            except UnavailableError as error:
                # Leases run on meanwhile.
                pause_s = min(every_s, _AGAIN_S)
                if error.message != said:
                    _log.warning("%s", error.message)
                said = error.message
            except Exception:  # noqa: BLE001
                # A thread that ends here would leave the worker deaf; the next round may succeed.
                _log.exception("a round of the %s failed", name)

    threading.Thread(target=repeat, name=name, daemon=True).start()
