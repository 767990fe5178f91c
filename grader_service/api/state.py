"""What the application hands to its routes.

The functions are async, so that they run where they are called: FastAPI would send others to a
thread and wait for it.
"""

from __future__ import annotations

from fastapi import Request

from grader_service.api.body import Limits
from grader_service.grading.service import Service


async def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def limits_of(request: Request) -> Limits:
    limits: Limits = request.app.state.limits
    return limits
