"""Runs, and the judges that grade them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends

from grader_service.api.problems import PROBLEM
from grader_service.api.state import service_of
from grader_service.grading import summary
from grader_service.grading.service import Service

router = APIRouter(prefix="/v1", tags=["runs"])

ServiceDep = Annotated[Service, Depends(service_of)]


@router.get("/runs")
def list_runs(service: ServiceDep) -> list[dict[str, Any]]:
    """List runs, newest first."""
    return summary.runs(service)


@router.get("/runs/{run}", responses={404: PROBLEM})
def get_run(run: str, service: ServiceDep) -> dict[str, Any]:
    """Read a run's summary: the three accounts, and the rate with its interval if there is one."""
    return summary.run_summary(service, run)


@router.get("/judges")
def list_judges(service: ServiceDep) -> list[dict[str, Any]]:
    """List the configured judges. Keys are never shown."""
    return [
        {
            "name": name,
            "provider": judge.provider.kind,
            "model": judge.provider.model,
            "base_url": judge.provider.base_url,
            "digest": judge.digest,
            "default": name == service.judges.default,
            "stub": judge.stub,
        }
        for name, judge in sorted(service.judges.by_name.items())
    ]
