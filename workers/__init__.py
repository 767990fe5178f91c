"""Celery: the application, its tasks and its signals."""
