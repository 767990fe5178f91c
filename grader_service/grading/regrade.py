"""Grade a trial again: one more round, under another rubric, by another judge, or just anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from grader_service.errors import ConflictError
from grader_service.grading.read import no_trial
from grader_service.grading.service import Service
from grader_service.judging.rubric import rubric_of_kind
from grader_service.storage import gradings, trials


@dataclass(frozen=True, slots=True)
class QueuedGrading:
    """A grading that waits for its judge; `judge` is None where none is configured."""

    id: str
    trial_id: str
    round: int
    rubric_digest: str
    judge: str | None


def regrade(
    service: Service,
    trial_id: str,
    *,
    rubric: Any = None,
    judge: str | None = None,
    fresh: bool = False,
) -> QueuedGrading:
    """Queue the next round of a trial. Every earlier verdict stays.

    Without `rubric` the trial's own is used, without `judge` that of the round before. Raises
    NotFoundError, InputError for a rubric or judge that is none, and ConflictError while the round
    before has not ended.
    """
    with service.database.write() as unit:
        if trials.get(unit, trial_id, tenant=service.tenant) is None:
            raise no_trial(trial_id)
        # Locked, so that of two requests at once the later one finds the round of the other.
        row = trials.lock(unit, trial_id)
        before = gradings.latest_of(unit, [trial_id])[trial_id]
        if before.state in ("queued", "running"):
            raise ConflictError(
                f"round {before.round} of trial {trial_id} is {before.state}",
                fix="wait until its state is done: GET /v1/trials/{id} says what it waits for",
            )
        rubric_digest = row.rubric_digest
        if rubric is not None:
            chosen = rubric_of_kind(rubric, kind="frames" if row.kind == "robot" else "bundle")
            trials.put_rubric(
                unit, digest=chosen.digest, rubric_id=chosen.id, body=chosen.to_dict()
            )
            rubric_digest = chosen.digest
        wanted = judge or before.judge or None
        config = service.judges.resolve(wanted)
        grading_id = gradings.enqueue(
            unit,
            trial_id=trial_id,
            tenant=row.tenant,
            run=row.run,
            rubric_digest=rubric_digest,
            judge=config.name if config else (wanted or ""),
            judge_digest=config.digest if config else "",
            round_=before.round + 1,
            fresh=fresh,
            priority=before.priority,
        )
    return QueuedGrading(
        id=grading_id,
        trial_id=trial_id,
        round=before.round + 1,
        rubric_digest=rubric_digest,
        judge=config.name if config else wanted,
    )
