"""What happens when a worker process starts and stops."""

from __future__ import annotations

import logging
import signal
import sys
from typing import Any

from celery.signals import setup_logging, worker_init, worker_shutdown, worker_shutting_down

from grader_service.errors import AutograderError
from grader_service.observability.logs import configure_logging
from grader_service.settings import Settings
from workers import process

_log = logging.getLogger(__name__)


def connect(settings: Settings) -> None:
    """Start the pump before the first message, stop it at a graceful stop."""

    @worker_init.connect(weak=False)
    def _start(**_: Any) -> None:
        # Celery's own handler comes a moment later; until then nothing is in flight.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        configure_logging()
        try:
            process.start(settings)
        except Exception as error:
            # Celery would go on without what the tasks need, and without a word.
            if not isinstance(error, AutograderError):
                _log.exception("the worker can't start")
            raise SystemExit(f"error: {error}") from error

    @worker_shutting_down.connect(weak=False)
    def _stop(**_: Any) -> None:
        process.stop()

    @worker_shutdown.connect(weak=False)
    def _leave(**_: Any) -> None:
        process.leave()

    @setup_logging.connect(weak=False)
    def _logging(**_: Any) -> None:
        configure_logging()
