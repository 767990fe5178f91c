"""Readiness: can a submission be stored, and is somebody there to grade it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from grader_service.errors import UnavailableError
from grader_service.grading.service import Service
from grader_service.storage import probe, workers

# Workers that were silent for longer are not spoken of.
SEEN_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Readiness:
    """`ready` is about taking trials; `causes` also names what keeps them from being graded.

    `workers` is how many workers are up; `stuck` names those that took nothing for a while though
    they could have, or say nothing any more.
    """

    ready: bool
    status: Literal["ready", "degraded", "unavailable"]
    causes: list[str] = field(default_factory=list)
    workers: int = 0
    stuck: list[str] = field(default_factory=list)


def readiness(service: Service) -> Readiness:
    """Try the database with a write, and look for workers that make progress."""
    try:
        with service.database.write() as unit:
            probe.write(unit)
            seen = workers.seen(unit, within_s=SEEN_S)
            paused = workers.paused_judges(unit)
    except UnavailableError as error:
        return Readiness(ready=False, status="unavailable", causes=[error.message])
    alive = [worker for worker in seen if worker.age <= workers.ALIVE_S]
    stuck = [worker for worker in seen if worker.idle > service.stuck_after_s]
    causes = [f"worker {worker.node}: {worker.trouble}" for worker in alive if worker.trouble]
    causes += [f"worker {worker.node} takes no trials" for worker in alive if worker in stuck]
    # The empty name is the default judge's, which goes by its own as well.
    causes += [f"judge {judge}: {why}" for judge, why in paused.items() if judge]
    if not service.judges.by_name:
        causes.append("no judge configured: trials are accepted and wait")
    if not alive:
        causes.append("no worker is running: trials are accepted and wait")
    return Readiness(
        ready=True,
        status="degraded" if causes else "ready",
        causes=causes,
        workers=len(alive),
        stuck=[worker.node for worker in stuck],
    )
