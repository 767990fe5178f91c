"""Grading rows: the queue of record. Every change of state is one statement of this module.

    queued ──claim──▶ running ──finish──▶ done (graded | abstained | ungraded)
      ▲                 │
      ├──put_back───────┤   the provider's or our own fault, or a wait that is nobody's
      └──expire_leases──┘   the worker died or froze

A claim gives a token. Whatever a worker writes later carries it and matches no row once the lease
was given to somebody else, so a worker that wakes up late can't overwrite anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    and_,
    case,
    func,
    insert,
    literal,
    null,
    or_,
    select,
    tuple_,
    update,
)

from grader_service.records.verdict import Decision
from grader_service.storage.database import Unit
from grader_service.storage.ids import new_id
from grader_service.storage.tables import gradings

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
            state="queued",
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


# --- publishing ---------------------------------------------------------------------------------


def publish_due(unit: Unit, *, judges: Iterable[str], limit: int, stale_s: float) -> list[str]:
    """Mark up to `limit` due rows as published and return their ids, round-robin over runs.

    A row that was published more than `stale_s` ago and is still queued is due again: the broker
    lost it.
    """
    chosen: list[str] = []
    for judge in judges:
        queues = [
            _due(
                unit,
                judge=judge,
                tenant=tenant,
                run=run,
                limit=limit - len(chosen),
                stale_s=stale_s,
            )
            for tenant, run in _runs_with_queued(unit, judge)
        ]
        chosen += _interleave(queues, limit - len(chosen))
        if len(chosen) >= limit:
            break
    if not chosen:
        return []
    rows = unit.execute(
        update(gradings)
        .where(gradings.c.id.in_(chosen), *_publishable(unit, stale_s))
        .values(published_at=unit.now)
        .returning(gradings.c.id)
    )
    marked = {row.id for row in rows}
    return [grading_id for grading_id in chosen if grading_id in marked]


def _publishable(unit: Unit, stale_s: float) -> tuple[ColumnElement[bool], ...]:
    return (
        gradings.c.state == "queued",
        gradings.c.not_before <= unit.now,
        gradings.c.published_at < unit.now - stale_s,
    )


def _due(unit: Unit, *, judge: str, tenant: str, run: str, limit: int, stale_s: float) -> list[str]:
    statement = (
        select(gradings.c.id)
        .where(
            gradings.c.judge == judge,
            gradings.c.tenant == tenant,
            gradings.c.run == run,
            *_publishable(unit, stale_s),
        )
        .order_by(gradings.c.not_before, gradings.c.id)
        .limit(limit)
        # Several pumps share the work instead of waiting for each other (ignored by SQLite).
        .with_for_update(skip_locked=True)
    )
    return list(unit.execute(statement).scalars())


def _runs_with_queued(unit: Unit, judge: str) -> list[tuple[str, str]]:
    """Return the (tenant, run) pairs that have queued rows, one index probe for each."""
    pairs: list[tuple[str, str]] = []
    while True:
        statement = (
            select(gradings.c.tenant, gradings.c.run)
            .where(gradings.c.state == "queued", gradings.c.judge == judge)
            .order_by(gradings.c.tenant, gradings.c.run)
            .limit(1)
        )
        if pairs:
            last = tuple_(literal(pairs[-1][0]), literal(pairs[-1][1]))
            statement = statement.where(tuple_(gradings.c.tenant, gradings.c.run) > last)
        row = unit.execute(statement).first()
        if row is None:
            return pairs
        pairs.append((row.tenant, row.run))


def _interleave(queues: Sequence[Sequence[str]], limit: int) -> list[str]:
    longest = max((len(queue) for queue in queues), default=0)
    rounds = (queue[turn] for turn in range(longest) for queue in queues if turn < len(queue))
    return [grading_id for _, grading_id in zip(range(limit), rounds, strict=False)]


def unpublish(unit: Unit, ids: Sequence[str] | None = None) -> None:
    """Make queued rows due at once: `ids`, or all of them after the broker lost its data."""
    statement = update(gradings).where(gradings.c.state == "queued", gradings.c.published_at > 0)
    if ids is not None:
        statement = statement.where(gradings.c.id.in_(ids))
    unit.execute(statement.values(published_at=0.0))


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


def depth(unit: Unit) -> dict[str, int]:
    """Return how many rows are in each unfinished state, and how many of the queued are due."""
    due = case((and_(gradings.c.state == "queued", gradings.c.not_before <= unit.now), 1), else_=0)
    rows = unit.execute(
        select(gradings.c.state, func.count().label("n"), func.sum(due).label("due"))
        .where(gradings.c.state.in_(["queued", "running"]))
        .group_by(gradings.c.state)
    )
    counts = {"queued": 0, "running": 0, "due": 0}
    for row in rows:
        counts[row.state] = row.n
        counts["due"] += int(row.due)
    return counts
