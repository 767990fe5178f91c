"""The one Worker of this process, built when the process is up and never before a fork."""

from __future__ import annotations

from grader_service.bootstrap import Worker, build_worker
from grader_service.settings import Settings

_worker: Worker | None = None


def start(settings: Settings) -> None:
    """Build the worker and start its pump."""
    global _worker  # noqa: PLW0603  (Celery's signals and tasks share nothing but the process)
    _worker = build_worker(settings)
    _worker.pump.start()


def worker() -> Worker:
    if _worker is None:
        raise RuntimeError("the worker process has not started")
    return _worker
