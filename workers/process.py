"""The one Worker of this process, built when the process is up and never before a fork."""

from __future__ import annotations

import contextlib
import logging
import time

from grader_service.bootstrap import Worker, build_worker
from grader_service.errors import UnavailableError
from grader_service.settings import Settings

_log = logging.getLogger(__name__)
_worker: Worker | None = None


def start(settings: Settings) -> None:
    """Build the worker and start its pump, as soon as the database answers."""
    global _worker  # noqa: PLW0603  (Celery's signals and tasks share nothing but the process)
    _worker = build_worker(settings)
    for judge in _worker.grader.judges.values():
        # Or the first trials wait seconds for the SDK to be loaded, each in its slot.
        judge.provider.warm()
    while True:
        try:
            _worker.pump.start()
        except UnavailableError as error:
            _log.warning("the worker waits: %s", error.message)
            time.sleep(1)
        else:
            return


def stop() -> None:
    """Begin nothing more. What is in flight ends, and keeps its leases until then."""
    worker().pump.stop()
    worker().grader.gate.close()


def leave() -> None:
    """Take the worker off the list, since nothing is in flight any more."""
    if _worker is not None:
        with contextlib.suppress(UnavailableError):
            _worker.pump.leave()


def worker() -> Worker:
    if _worker is None:
        raise RuntimeError("the worker process has not started")
    return _worker
