"""The state of the queue: what waits, runs and died, judge by judge."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, case, func, or_, select

from grader_service.storage.database import Unit
from grader_service.storage.tables import gradings, trials

# Ungraded by our or the provider's fault: asking once more may well give a verdict.
DEAD_REASONS: Final = frozenset({"worker_lost", "provider_unavailable", "timeout", "internal"})
CANCELLED: Final = "cancelled"


def unfinished_by_judge(unit: Unit, *, tenant: str) -> list[Any]:
    """Return rows (judge, state, n, due, oldest) of what is queued or running.

    `due` counts the queued rows whose time has come, `oldest` is the age in seconds of the oldest
    row. Counted over an index alone: ids tell which row is the oldest.
    """
    due = case((_is_due(unit), 1), else_=0)
    counted = (
        select(
            gradings.c.judge,
            gradings.c.state,
            func.count().label("n"),
            func.sum(due).label("due"),
            func.min(gradings.c.id).label("first_id"),
        )
        .where(gradings.c.state.in_(["queued", "running"]), gradings.c.tenant == tenant)
        .group_by(gradings.c.judge, gradings.c.state)
        .subquery()
    )
    age = (unit.now - gradings.c.created_at).label("oldest")
    return list(
        unit.execute(
            select(counted, age).join_from(counted, gradings, gradings.c.id == counted.c.first_id)
        )
    )


def newest_error(unit: Unit, *, tenant: str, judge: str) -> str | None:
    """Return the newest error of the rows of a judge that wait for a later time."""
    return unit.execute(
        select(gradings.c.last_error)
        .where(
            gradings.c.state == "queued",
            gradings.c.judge == judge,
            gradings.c.tenant == tenant,
            gradings.c.not_before > unit.now,
            gradings.c.last_error_at.is_not(None),
        )
        .order_by(gradings.c.last_error_at.desc())
        .limit(1)
    ).scalar()


def dead_by_judge(unit: Unit, *, tenant: str) -> list[Any]:
    """Return rows (judge, reason, n) of the dead trials."""
    return list(
        unit.execute(
            select(gradings.c.judge, gradings.c.reason, func.count().label("n"))
            .join(trials, trials.c.id == gradings.c.trial_id)
            .where(_ended_by(DEAD_REASONS), *_newest_without_verdict(tenant))
            .group_by(gradings.c.judge, gradings.c.reason)
        )
    )


def ended_trials(
    unit: Unit, *, tenant: str, reasons: Collection[str], run: str | None = None
) -> list[str]:
    """Return the trials without a verdict whose newest grading ended by one of `reasons`.

    A reason is a code of an ungraded grading, or CANCELLED.
    """
    statement = (
        select(gradings.c.trial_id)
        .join(trials, trials.c.id == gradings.c.trial_id)
        .where(_ended_by(reasons), *_newest_without_verdict(tenant))
        .order_by(gradings.c.trial_id)
    )
    if run is not None:
        statement = statement.where(gradings.c.run == run)
    return list(unit.execute(statement).scalars())


def cancelled_of_run(unit: Unit, *, tenant: str, run: str) -> list[Any]:
    """Return rows (outcome, reason, source, n) of a run's trials that were cancelled.

    A trial that has a verdict is not: only another round of it was.
    """
    columns = (trials.c.outcome, trials.c.reason, trials.c.source)
    return list(
        unit.execute(
            select(*columns, func.count().label("n"))
            .join_from(gradings, trials, trials.c.id == gradings.c.trial_id)
            .where(_ended_by({CANCELLED}), gradings.c.run == run, *_newest_without_verdict(tenant))
            .group_by(*columns)
        )
    )


def unfinished_ids(
    unit: Unit, *, tenant: str, run: str | None = None, trial_ids: Collection[str] = ()
) -> list[str]:
    """Return the gradings of a run, or of trials, that are queued or running."""
    statement = select(gradings.c.id).where(
        gradings.c.tenant == tenant, gradings.c.state.in_(["queued", "running"])
    )
    if run is not None:
        statement = statement.where(gradings.c.run == run)
    else:
        statement = statement.where(gradings.c.trial_id.in_(trial_ids))
    return list(unit.execute(statement.order_by(gradings.c.id)).scalars())


def _is_due(unit: Unit) -> ColumnElement[bool]:
    return and_(gradings.c.state == "queued", gradings.c.not_before <= unit.now)


def _ended_by(reasons: Collection[str]) -> ColumnElement[bool]:
    ungraded = and_(
        gradings.c.state == "done", gradings.c.reason.in_(sorted(set(reasons) - {CANCELLED}))
    )
    return or_(ungraded, gradings.c.state == CANCELLED) if CANCELLED in reasons else ungraded


def _newest_without_verdict(tenant: str) -> tuple[ColumnElement[bool], ...]:
    newer = gradings.alias()
    return (
        gradings.c.tenant == tenant,
        or_(trials.c.outcome.is_(None), trials.c.outcome == "ungraded"),
        ~select(newer.c.id)
        .where(newer.c.trial_id == gradings.c.trial_id, newer.c.round > gradings.c.round)
        .exists(),
    )
