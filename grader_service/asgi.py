"""The ASGI entry point: `uvicorn grader_service.asgi:create --factory`."""

from __future__ import annotations

from fastapi import FastAPI

from grader_service.api.app import create_app
from grader_service.api.body import Limits
from grader_service.bootstrap import build_service
from grader_service.settings import Settings


def create() -> FastAPI:
    """Build the application from the environment."""
    settings = Settings.load()
    limits = Limits(
        body_bytes=settings.max_body_bytes,
        part_bytes=settings.max_part_bytes,
        parts=settings.max_parts,
        seconds=settings.body_timeout_s,
    )
    return create_app(build_service(settings), limits)
