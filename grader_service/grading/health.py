"""Readiness: can a submission be stored, and is somebody there to grade it."""

from __future__ import annotations

from dataclasses import dataclass, field

from grader_service.errors import UnavailableError
from grader_service.grading.service import Service
from grader_service.storage import gradings, workers

# A worker's pump makes several rounds in this time.
_ALIVE_S = 5.0


@dataclass(frozen=True, slots=True)
class Readiness:
    """`ready` is about taking trials; `causes` also names what keeps them from being graded."""

    ready: bool
    causes: list[str] = field(default_factory=list)
    queue: dict[str, int] = field(default_factory=dict)
    workers: int = 0


def readiness(service: Service) -> Readiness:
    """Try the database with a write, and look for workers that make progress."""
    try:
        with service.database.write() as unit:
            queue = gradings.depth(unit)
            alive = len(workers.seen(unit, within_s=_ALIVE_S))
    except UnavailableError as error:
        return Readiness(ready=False, causes=[error.message])
    causes = []
    if not service.judges.by_name:
        causes.append("no judge configured: trials are accepted and wait")
    if not alive:
        causes.append("no worker is running: trials are accepted and wait")
    return Readiness(ready=True, causes=causes, queue=queue, workers=alive)
