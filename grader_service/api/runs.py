"""Runs: their summaries, live progress and exports."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from grader_service.api.events import EventStream, Looks, events, read_id
from grader_service.api.problems import PROBLEM
from grader_service.api.state import service_of
from grader_service.errors import UnavailableError
from grader_service.grading import run_cards, summary
from grader_service.grading.service import Service

router = APIRouter(prefix="/v1", tags=["runs"])

ServiceDep = Annotated[Service, Depends(service_of)]

_MISSING: Final[dict[int | str, dict[str, Any]]] = dict.fromkeys((400, 404, 422, 503), PROBLEM)


class RunsQuery(BaseModel):
    """Position of a listing."""

    model_config = {"extra": "forbid"}

    cursor: UUID | None = None
    limit: Annotated[int, Query(ge=1, le=200)] = 50


class RunsOut(BaseModel):
    """A page of runs, each with its summary; `next_cursor` asks for the next one."""

    runs: list[dict[str, Any]]
    next_cursor: str | None


class AggregateOut(BaseModel):
    """Rows over A320 trials, one for each scenario and model."""

    aggregate: list[dict[str, Any]]


@router.get("/runs", responses={422: PROBLEM, 503: PROBLEM})
def list_runs(service: ServiceDep, query: Annotated[RunsQuery, Query()]) -> RunsOut:
    """List runs with their summaries, the one that began last first."""
    cursor = None if query.cursor is None else str(query.cursor)
    found = summary.runs(service, limit=query.limit, cursor=cursor)
    return RunsOut(runs=list(found.runs), next_cursor=found.next_cursor)


@router.get(
    "/runs/{run:path}/events", status_code=200, response_class=EventStream, responses=_MISSING
)
async def follow_run(
    request: Request,
    run: str,
    service: ServiceDep,
    trials: bool = True,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """Follow a run: server-sent events until nothing of it is pending.

    `summary` at once and whenever it changes; `trial` for each trial that ends, from the run's
    beginning or from Last-Event-ID on (one that ended within seconds of it may come again); `end`
    with the last summary. `trials=false` leaves the trials out.
    """
    looks: Looks = request.app.state.looks
    stream = events(looks, service, run, after=read_id(last_event_id), trials=trials)
    # Before the answer begins, so that an unknown run is a problem document.
    first = await anext(stream, None)
    if first is None:
        raise UnavailableError("the service is stopping", fix="try again")
    return EventStream(_with_first(first, stream))


async def _with_first(first: str, rest: AsyncIterator[str]) -> AsyncIterator[str]:
    yield first
    async for event in rest:
        yield event


@router.get("/runs/{run:path}/scorecards", response_class=StreamingResponse, responses=_MISSING)
def get_scorecards(
    run: str, service: ServiceDep, scorer: Annotated[list[str] | None, Query()] = None
) -> Response:
    """Read the ScoreCards of all trials, one on each line, in the order of submission."""
    cards = run_cards.scorecards(service, run, scorer or ())
    return StreamingResponse(cards, media_type="application/x-ndjson")


@router.get("/runs/{run:path}/aggregate", responses=_MISSING)
def get_aggregate(run: str, service: ServiceDep, include_errors: bool = False) -> AggregateOut:
    """Read what the A320 trials of a run come to, by scenario and model.

    `include_errors` pools runs that a provider cut short as well.
    """
    rows = run_cards.aggregate(service, run, include_errors=include_errors)
    return AggregateOut(aggregate=rows)


# The last of them: a run's name may have slashes.
@router.get("/runs/{run:path}", responses=_MISSING)
def get_run(run: str, service: ServiceDep) -> dict[str, Any]:
    """Read a run's summary: the three accounts, and the rate with its interval if there is one."""
    return summary.run_summary(service, run)
