"""Retention: old trials with all that hangs on them, and which blobs are still needed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, delete, func, or_, select

from grader_service.storage.database import Database, Unit
from grader_service.storage.tables import gradings, trials, verdicts

_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Rows:
    """How many rows of each kind."""

    trials: int = 0
    gradings: int = 0
    verdicts: int = 0

    def __add__(self, other: Rows) -> Rows:
        return Rows(
            self.trials + other.trials,
            self.gradings + other.gradings,
            self.verdicts + other.verdicts,
        )


def ended_before(
    unit: Unit, *, tenant: str, age_s: float, run: str | None, after: str = "", limit: int = 200
) -> list[str]:
    """Return trials to which nothing has happened for `age_s` seconds, in the order of their ids.

    Nothing of them is queued or running. They are locked: none gets another round before this
    transaction ends.
    """
    ended = _ended(unit, tenant, age_s, run)
    page = select(trials.c.id).where(trials.c.id > after, *ended).order_by(trials.c.id).limit(limit)
    found = unit.execute(page.with_for_update(skip_locked=True)).scalars().all()
    # Asked again now that they are locked: a round may have been added in between.
    again = select(trials.c.id).where(trials.c.id.in_(found), *ended).order_by(trials.c.id)
    return list(unit.execute(again).scalars())


def _ended(
    unit: Unit, tenant: str, age_s: float, run: str | None
) -> tuple[ColumnElement[bool], ...]:
    since = unit.now - age_s
    in_work = select(gradings.c.id).where(
        gradings.c.trial_id == trials.c.id,
        or_(gradings.c.state.in_(["queued", "running"]), gradings.c.done_at >= since),
    )
    judged = select(verdicts.c.id).where(verdicts.c.trial_id == trials.c.id, verdicts.c.at >= since)
    return (
        trials.c.tenant == tenant,
        *(() if run is None else (trials.c.run == run,)),
        trials.c.created_at < since,
        ~in_work.exists(),
        ~judged.exists(),
    )


def count(unit: Unit, trial_ids: Sequence[str]) -> Rows:
    """Return what `delete_trials` would delete."""

    def rows(column: ColumnElement[str]) -> int:
        return int(unit.execute(select(func.count()).where(column.in_(trial_ids))).scalar_one())

    return Rows(rows(trials.c.id), rows(gradings.c.trial_id), rows(verdicts.c.trial_id))


def delete_trials(unit: Unit, trial_ids: Sequence[str]) -> Rows:
    """Delete trials with their gradings, verdicts and receipts."""

    def rows(column: ColumnElement[str]) -> int:
        return int(unit.execute(delete(column.table).where(column.in_(trial_ids))).rowcount)

    # Those first that point to the others.
    of_verdicts, of_gradings = rows(verdicts.c.trial_id), rows(gradings.c.trial_id)
    return Rows(rows(trials.c.id), of_gradings, of_verdicts)


def needed_blobs(database: Database, *, without: Collection[str] = ()) -> Iterator[str]:
    """Return the sha256 of every blob that a trial needs, leaving out the trials of `without`."""
    after = ""
    while True:
        statement = (
            select(trials.c.id, trials.c.record_digest, trials.c.columns, trials.c.frames)
            .where(trials.c.id > after)
            .order_by(trials.c.id)
            .limit(_PAGE)
        )
        with database.read() as unit:
            page = unit.execute(statement).all()
        for row in page:
            if row.id not in without:
                yield row.record_digest
                yield from row.columns
                yield from (frame["sha256"] for frame in row.frames)
        if len(page) < _PAGE:
            return
        after = page[-1].id
