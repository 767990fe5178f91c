"""What can be asked for by name: judges and rubrics."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel

from grader_service.api.problems import PROBLEM
from grader_service.api.state import service_of
from grader_service.grading import catalog
from grader_service.grading.service import Service

router = APIRouter(prefix="/v1", tags=["catalog"])

ServiceDep = Annotated[Service, Depends(service_of)]


class JudgeOut(BaseModel):
    """A configured judge. `digest` is its identity: it changes with whatever changes answers."""

    name: str
    provider: str
    model: str
    stub: bool
    default: bool
    digest: str


class JudgesOut(BaseModel):
    """All judges; without any, trials wait."""

    judges: list[JudgeOut]


class ListedRubricOut(BaseModel):
    """A rubric of the library."""

    id: str
    kind: str
    title: str
    digest: str


class RubricsOut(BaseModel):
    """The library."""

    rubrics: list[ListedRubricOut]


class RubricOut(BaseModel):
    """A rubric as a submission may carry it, and the digest of its canonical form."""

    digest: str
    rubric: dict[str, Any]


@router.get("/judges")
async def get_judges(service: ServiceDep) -> JudgesOut:
    """Read which judges are configured."""
    return JudgesOut.model_validate({"judges": catalog.judges(service)})


@router.get("/rubrics")
def get_rubrics() -> RubricsOut:
    """Read which rubrics the library has."""
    return RubricsOut.model_validate({"rubrics": catalog.rubrics()})


@router.get("/rubrics/{reference:path}", responses={404: PROBLEM, 503: PROBLEM})
def get_rubric(reference: str, service: ServiceDep) -> RubricOut:
    """Read a rubric by its id in the library, or by the digest that a receipt names."""
    return RubricOut.model_validate(catalog.rubric(service, reference))
