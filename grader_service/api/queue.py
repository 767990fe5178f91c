"""The queue: look at it, retry what died, cancel what waits."""

from __future__ import annotations

from typing import Annotated, Any, Self
from uuid import UUID

from fastapi import APIRouter, Depends, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict, Field, model_validator

from grader_service.api.body import Limits, openapi_of, read_json
from grader_service.api.problems import PROBLEM
from grader_service.api.state import limits_of, service_of
from grader_service.client.forms import Name
from grader_service.grading import queue_control
from grader_service.grading.service import Service

router = APIRouter(prefix="/v1/queue", tags=["queue"])

ServiceDep = Annotated[Service, Depends(service_of)]
LimitsDep = Annotated[Limits, Depends(limits_of)]


class RetryIn(BaseModel):
    """Which trials get another round: of one run or of all, that ended by one of `reasons`."""

    model_config = ConfigDict(extra="forbid")

    run: Name | None = None
    reasons: list[Name] = Field(default=[], max_length=50)


class CancelIn(BaseModel):
    """What is cancelled: a run, or up to 1,000 trials."""

    model_config = ConfigDict(extra="forbid")

    run: Name | None = None
    trials: list[UUID] = Field(default=[], max_length=1000)

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.run is None) == (not self.trials):
            raise ValueError("name either a run or trials")
        return self


class RetriedOut(BaseModel):
    """How many trials were queued again."""

    retried: int


class CancelledOut(BaseModel):
    """How many gradings were cancelled; what had ended before is not among them."""

    cancelled: int


_PROBLEMS: dict[int | str, dict[str, Any]] = dict.fromkeys((400, 404, 413, 415, 422, 503), PROBLEM)


@router.get("", responses={503: PROBLEM})
def get_queue(service: ServiceDep) -> dict[str, Any]:
    """Read what waits, runs and died, judge by judge, and which workers were seen lately."""
    return queue_control.queue_view(service)


@router.post("/retry", openapi_extra=openapi_of(RetryIn), responses=_PROBLEMS)
async def retry(request: Request, service: ServiceDep, limits: LimitsDep) -> RetriedOut:
    """Queue another round of trials that ended without a verdict."""
    asked = await read_json(request, limits, RetryIn)

    def queue() -> int:
        return queue_control.retry(service, run=asked.run, reasons=asked.reasons)

    return RetriedOut(retried=await run_in_threadpool(queue))


@router.post("/cancel", openapi_extra=openapi_of(CancelIn), responses=_PROBLEMS)
async def cancel(request: Request, service: ServiceDep, limits: LimitsDep) -> CancelledOut:
    """End what is queued or running without a verdict."""
    asked = await read_json(request, limits, CancelIn)

    def end() -> int:
        trial_ids = [str(trial_id) for trial_id in asked.trials]
        return queue_control.cancel(service, run=asked.run, trial_ids=trial_ids)

    return CancelledOut(cancelled=await run_in_threadpool(end))
