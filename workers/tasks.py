"""The tasks: each calls one use case."""

from __future__ import annotations

from celery import Celery

from grader_service.grading.celery_queue import TASK
from workers import process


def grade(grading_id: str) -> str:
    """Grade one row, if it is due; a second message for it does nothing."""
    worker = process.worker()
    with worker.slots.take():
        return worker.grader.grade(grading_id)


def register(app: Celery) -> None:
    app.task(name=TASK)(grade)
