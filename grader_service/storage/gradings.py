"""Grading rows: the queue of record. Every change of state is one statement of this module.

    enqueue, retry ──▶ queued ──claim──▶ running ──finish──▶ done (graded | abstained | ungraded)
                       │  ▲                 │
                       │  ├──put_back───────┤   the provider's or our own fault, or a wait
                       │  └──expire_leases──┤   the worker died or froze
                       │                    │
                       ├──end_lost──▶ done (ungraded: worker_lost), after the last lease
                       │                    │
                       └──────cancel────────┴──▶ cancelled

A claim gives a token. Whatever a worker writes later carries it and matches no row once the lease
was given to somebody else or the grading was cancelled, so a worker that wakes up late can't
overwrite anything. A row never leaves `done` or `cancelled`: `retry` gives its trial another one,
of the next round. Which queued rows go to the broker and when is in `publishing`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    and_,
    case,
    func,
    insert,
    null,
    or_,
    select,
    tuple_,
    update,
)

from grader_service.records.verdict import Decision
from grader_service.storage.database import Unit
from grader_service.storage.ids import new_id
from grader_service.storage.tables import gradings, trials

MAX_FAILURES: Final = 6
MAX_LOST_LEASES: Final = 10
# From so many lost leases on, the trial runs alone in its worker: it may be what kills it, and
# must not take others along.
ALONE_AFTER: Final = 2


@dataclass(frozen=True, slots=True)
class Claim:
    """A row that this worker holds until `lease_until`, and the token that proves it."""

    id: str
    trial_id: str
    round: int
    rubric_digest: str
    judge: str
    token: str
    failures: int
    lost_leases: int
    fresh: bool


def enqueue(
    unit: Unit,
    *,
    trial_id: str,
    tenant: str,
    run: str,
    rubric_digest: str,
    judge: str,
    judge_digest: str,
    round_: int = 0,
    fresh: bool = False,
    priority: int = 0,
) -> str:
    """Insert a queued grading and return its id."""
    grading_id = new_id()
    unit.execute(
        insert(gradings).values(
            id=grading_id,
            trial_id=trial_id,
            tenant=tenant,
            run=run,
            round=round_,
            rubric_digest=rubric_digest,
            judge=judge,
            judge_digest=judge_digest,
            fresh=fresh,
            priority=priority,
            state="queued",
            # In line with those that were put back, not before all of them.
            not_before=unit.now,
            created_at=unit.now,
        )
    )
    return grading_id


def record_adopted(
    unit: Unit, *, trial_id: str, tenant: str, run: str, rubric_digest: str, verdict: str
) -> None:
    """Insert the grading of a trial that came with a definitive verdict: done, without a call."""
    unit.execute(
        insert(gradings).values(
            id=new_id(),
            trial_id=trial_id,
            tenant=tenant,
            run=run,
            round=0,
            rubric_digest=rubric_digest,
            judge="",
            judge_digest="adopted",
            state="done",
            outcome="graded",
            verdict=verdict,
            created_at=unit.now,
            done_at=unit.now,
        )
    )


# --- working ------------------------------------------------------------------------------------


def peek(unit: Unit, grading_id: str) -> int | None:
    """Return how many leases a claimable row has lost, or None where there is nothing to claim."""
    statement = select(gradings.c.lost_leases).where(gradings.c.id == grading_id, _claimable(unit))
    lost = unit.execute(statement).scalar()
    return None if lost is None else int(lost)


def claim(unit: Unit, grading_id: str, *, owner: str, lease_s: float) -> Claim | None:
    """Take a due row. None when it is done, held by somebody else or not due: a no-op."""
    token = new_id()
    lost = gradings.c.lost_leases + case((gradings.c.state == "running", 1), else_=0)
    row = unit.execute(
        update(gradings)
        .where(gradings.c.id == grading_id, _claimable(unit))
        .values(
            state="running",
            lease_token=token,
            lease_until=unit.now + lease_s,
            lost_leases=lost,
            owner=owner,
        )
        .returning(*gradings.c)
    ).first()
    if row is None:
        return None
    return Claim(
        id=row.id,
        trial_id=row.trial_id,
        round=row.round,
        rubric_digest=row.rubric_digest,
        judge=row.judge,
        token=token,
        failures=row.failures,
        lost_leases=row.lost_leases,
        fresh=row.fresh,
    )


def _claimable(unit: Unit) -> ColumnElement[bool]:
    return or_(
        and_(gradings.c.state == "queued", gradings.c.not_before <= unit.now),
        and_(
            gradings.c.state == "running",
            gradings.c.lease_until < unit.now,
            # The last lease is the reaper's to end.
            gradings.c.lost_leases < MAX_LOST_LEASES - 1,
        ),
    )


def renew(unit: Unit, held: Mapping[str, str], *, lease_s: float) -> set[str]:
    """Extend the leases of `held` (id → token); return the ids that are still held."""
    if not held:
        return set()
    rows = unit.execute(
        update(gradings)
        .where(
            gradings.c.state == "running",
            tuple_(gradings.c.id, gradings.c.lease_token).in_(list(held.items())),
        )
        .values(lease_until=unit.now + lease_s)
        .returning(gradings.c.id)
    )
    return {row.id for row in rows}


def finish(unit: Unit, held: Claim, decision: Decision, *, judge_digest: str) -> bool:
    """End a grading with its outcome. False when the lease was lost: nothing may be stored then."""
    return _leave_running(
        unit,
        held,
        state="done",
        outcome=decision.outcome,
        verdict=decision.verdict,
        reason=decision.reason,
        judge_digest=judge_digest,
        done_at=unit.now,
    )


def put_back(unit: Unit, held: Claim, *, delay_s: float, counts: bool, error: str) -> bool:
    """Return a row to the queue, due again after `delay_s`. False when the lease was lost."""
    return _leave_running(
        unit,
        held,
        state="queued",
        not_before=unit.now + delay_s,
        published_at=0.0,
        failures=gradings.c.failures + (1 if counts else 0),
        last_error=error[:2000],
        last_error_at=unit.now,
    )


def _leave_running(unit: Unit, held: Claim, **values: Any) -> bool:
    result = unit.execute(
        update(gradings)
        .where(
            gradings.c.id == held.id,
            gradings.c.state == "running",
            gradings.c.lease_token == held.token,
        )
        .values(lease_token=null(), owner=null(), **values)
    )
    return result.rowcount == 1


def expire_leases(unit: Unit, *, limit: int = 500) -> list[str]:
    """Return rows whose lease ran out to the queue; return the ids of those that lost their last.

    The caller ends the latter as ungraded, `worker_lost`, in the same transaction.
    """
    expired = (
        select(gradings.c.id)
        .where(gradings.c.state == "running", gradings.c.lease_until < unit.now)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    rows = unit.execute(
        update(gradings)
        .where(
            gradings.c.id.in_(expired),
            gradings.c.state == "running",
            gradings.c.lease_until < unit.now,
        )
        .values(
            state="queued",
            lease_token=null(),
            owner=null(),
            published_at=0.0,
            lost_leases=gradings.c.lost_leases + 1,
        )
        .returning(gradings.c.id, gradings.c.lost_leases)
    ).all()
    return [row.id for row in rows if row.lost_leases >= MAX_LOST_LEASES]


def end_lost(unit: Unit, grading_id: str) -> str | None:
    """End a row that no worker survives; return its trial's id."""
    row = unit.execute(
        update(gradings)
        .where(gradings.c.id == grading_id, gradings.c.state == "queued")
        .values(
            state="done",
            outcome="ungraded",
            verdict=null(),
            reason="worker_lost",
            done_at=unit.now,
        )
        .returning(gradings.c.trial_id)
    ).first()
    return None if row is None else str(row.trial_id)


def release_owner(unit: Unit, owner: str) -> int:
    """Expire what a dead worker held, so that its successor need not wait for the leases."""
    result = unit.execute(
        update(gradings)
        .where(gradings.c.state == "running", gradings.c.owner == owner)
        .values(lease_until=0.0)
    )
    return int(result.rowcount)


# --- by request --------------------------------------------------------------------------------


def cancel(unit: Unit, ids: Sequence[str]) -> int:
    """End rows that are queued or running without a verdict; return how many.

    A worker that is at one finds out by its late write.
    """
    result = unit.execute(
        update(gradings)
        .where(gradings.c.id.in_(ids), gradings.c.state.in_(["queued", "running"]))
        .values(state="cancelled", lease_token=null(), owner=null(), done_at=unit.now)
    )
    return int(result.rowcount)


def retry(unit: Unit, trial_ids: Sequence[str]) -> list[str]:
    """Queue the next round of trials whose newest grading is ungraded or cancelled.

    It is as the one before: same rubric, judge and priority. Returns the new gradings' ids; other
    trials are left alone.
    """
    # Locked, so that of two requests at once the later one finds the rounds of the other.
    unit.execute(
        select(trials.c.id)
        .where(trials.c.id.in_(trial_ids))
        .order_by(trials.c.id)
        .with_for_update()
    )
    return [
        enqueue(
            unit,
            trial_id=before.trial_id,
            tenant=before.tenant,
            run=before.run,
            rubric_digest=before.rubric_digest,
            judge=before.judge,
            judge_digest=before.judge_digest,
            round_=before.round + 1,
            fresh=before.fresh,
            priority=before.priority,
        )
        for before in latest_of(unit, trial_ids).values()
        if before.state == "cancelled" or before.outcome == "ungraded"
    ]


# --- reading ------------------------------------------------------------------------------------


def latest_of(unit: Unit, trial_ids: Sequence[str]) -> dict[str, Any]:
    """Return the newest grading row of each trial, by trial id."""
    statement = (
        select(gradings)
        .where(gradings.c.trial_id.in_(trial_ids))
        .order_by(gradings.c.round, gradings.c.id)
    )
    return {row.trial_id: row for row in unit.execute(statement)}


def unfinished_of_run(unit: Unit, *, tenant: str, run: str) -> list[Any]:
    """Return rows (state, judge, n) over the gradings of a run that have not ended."""
    return list(
        unit.execute(
            select(gradings.c.state, gradings.c.judge, func.count().label("n"))
            .where(
                gradings.c.tenant == tenant,
                gradings.c.run == run,
                gradings.c.state.in_(["queued", "running"]),
            )
            .group_by(gradings.c.state, gradings.c.judge)
        )
    )
