"""Queued gradings for tests, without a submission."""

from __future__ import annotations

from collections.abc import Sequence

from grader_service.storage import gradings, trials
from grader_service.storage.database import Database, Unit

RUBRIC = "r" * 64


def store_trial(unit: Unit, *, run: str = "r1", tenant: str = "t") -> str:
    """Store a trial that nobody grades; return its id."""
    trials.put_rubric(unit, digest=RUBRIC, rubric_id="robot/x", body={})
    return trials.add(
        unit, trials.NewTrial(tenant, run, None, "c", "robot", "s", 0, None, RUBRIC, "d", [], [])
    )


def enqueue(
    database: Database,
    runs: Sequence[str] = ("r1",),
    *,
    judge: str = "j",
    priority: int = 0,
    tenant: str = "t",
) -> list[str]:
    """Store a trial with a queued grading for each entry of `runs`; return the gradings' ids."""
    with database.write() as unit:
        return [
            gradings.enqueue(
                unit,
                trial_id=store_trial(unit, run=run, tenant=tenant),
                tenant=tenant,
                run=run,
                rubric_digest=RUBRIC,
                judge=judge,
                judge_digest="jd",
                priority=priority,
            )
            for run in runs
        ]


def claimed(database: Database, grading_id: str, *, owner: str = "w") -> gradings.Claim:
    """Claim a row that is there to be claimed, for 30 s."""
    with database.write() as unit:
        claim = gradings.claim(unit, grading_id, owner=owner, lease_s=30)
    assert claim is not None
    return claim
