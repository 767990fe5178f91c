"""Liveness and readiness."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from grader_service.api.state import service_of
from grader_service.grading.health import readiness
from grader_service.grading.service import Service

router = APIRouter(tags=["health"])


@router.get("/healthz")
def healthz() -> dict[str, str]:
    """Answer while the process is alive."""
    return {"status": "ok"}


@router.get("/readyz")
def readyz(response: Response, service: Annotated[Service, Depends(service_of)]) -> dict[str, Any]:
    """Say whether trials are taken (200 or 503), and what keeps them from being graded."""
    state = readiness(service)
    response.status_code = 200 if state.ready else 503
    return asdict(state)
