"""Logging of the service's processes: one line for each event, to stderr."""

from __future__ import annotations

import logging

# These log request bodies (frames, prompts) or every request at their lower levels.
_QUIET = (
    "anthropic",
    "openai",
    "httpx2",
    "httpcore2",
    "alembic",
    "PIL",
    "kombu",
    "amqp",
    "uvicorn",
)


def configure_logging(level: int = logging.INFO) -> None:
    """Send log lines to stderr, without what would leak frames or prompts."""
    logging.basicConfig(
        level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s", force=True
    )
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("celery").setLevel(logging.WARNING)
