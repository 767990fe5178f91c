"""The Celery application of a worker process: `celery -A workers.app worker --pool threads`."""

from __future__ import annotations

import warnings

from celery import Celery
from celery.exceptions import CPendingDeprecationWarning
from celery.platforms import SecurityWarning  # type: ignore[attr-defined]  # absent in stubs

from grader_service.grading.celery_queue import celery_config, key_prefix
from grader_service.settings import Settings
from workers import signals, tasks

# Warns root of pickled messages; only JSON is taken here.
warnings.filterwarnings("ignore", category=SecurityWarning)
# Warns whenever a connection breaks of a default that will change; celery_config sets it.
warnings.filterwarnings("ignore", category=CPendingDeprecationWarning)

settings = Settings.load()
app = Celery("autograder")
app.conf.update(
    celery_config(settings.broker_url or "redis://127.0.0.1:6379/0", key_prefix(settings.database))
)
tasks.register(app)
signals.connect(settings)
