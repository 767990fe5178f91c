"""What the application hands to its routes."""

from __future__ import annotations

from fastapi import Request

from grader_service.api.body import Limits
from grader_service.grading.service import Service


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def limits_of(request: Request) -> Limits:
    limits: Limits = request.app.state.limits
    return limits
