"""What happens when a worker process starts and stops."""

from __future__ import annotations

from typing import Any

from celery.signals import setup_logging, worker_init, worker_shutting_down

from grader_service.observability.logs import configure_logging
from grader_service.settings import Settings
from workers import process


def connect(settings: Settings) -> None:
    """Start the pump before the first message, stop it at a graceful stop."""

    @worker_init.connect(weak=False)
    def _start(**_: Any) -> None:
        process.start(settings)

    @worker_shutting_down.connect(weak=False)
    def _stop(**_: Any) -> None:
        # What is in flight ends and keeps its leases; nothing new is published.
        process.worker().pump.stop()

    @setup_logging.connect(weak=False)
    def _logging(**_: Any) -> None:
        configure_logging()
