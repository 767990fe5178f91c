"""Verdicts beyond the first: another grading by a judge, or what a person says."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Request
from fastapi.concurrency import run_in_threadpool

from grader_service.api.body import Limits, openapi_of, read_json
from grader_service.api.problems import PROBLEM
from grader_service.api.schemas import GradingIn, GradingOut, HumanVerdictIn, VerdictOut
from grader_service.api.state import limits_of, service_of
from grader_service.grading.regrade import regrade
from grader_service.grading.review import add_human_verdict
from grader_service.grading.service import Service

router = APIRouter(prefix="/v1/trials/{trial_id}", tags=["verdicts"])

ServiceDep = Annotated[Service, Depends(service_of)]
LimitsDep = Annotated[Limits, Depends(limits_of)]


def _problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return dict.fromkeys(statuses, PROBLEM)


@router.post(
    "/gradings",
    status_code=202,
    openapi_extra=openapi_of(GradingIn),
    responses=_problems(400, 404, 409, 413, 415, 422, 503),
)
async def grade_again(
    request: Request, trial_id: UUID, service: ServiceDep, limits: LimitsDep
) -> GradingOut:
    """Queue another round of grading. Every earlier verdict stays."""
    asked = await read_json(request, limits, GradingIn)

    def queue() -> GradingOut:
        queued = regrade(
            service, str(trial_id), rubric=asked.rubric, judge=asked.judge, fresh=asked.fresh
        )
        return GradingOut.of(queued)

    return await run_in_threadpool(queue)


@router.post(
    "/verdicts",
    status_code=201,
    openapi_extra=openapi_of(HumanVerdictIn),
    responses=_problems(400, 404, 413, 415, 422, 503),
)
async def add_verdict(
    request: Request, trial_id: UUID, service: ServiceDep, limits: LimitsDep
) -> VerdictOut:
    """Add a person's verdict. It counts unless the record came with a definitive one."""
    said = await read_json(request, limits, HumanVerdictIn)

    def store() -> VerdictOut:
        verdict, effective = add_human_verdict(
            service, str(trial_id), verdict=said.verdict, note=said.note, reviewer=said.reviewer
        )
        return VerdictOut.of(verdict, effective=effective)

    return await run_in_threadpool(store)
