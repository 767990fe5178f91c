"""Publishing: which queued rows go to the broker next.

Within a judge a higher priority goes first; within a priority runs take turns, so that ten trials
don't wait for another run's ten thousand; within a run the oldest goes first. Each step is an index
probe, so a round costs as much with 100,000 queued rows as with 1,000.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import TypeVar

from sqlalchemy import Column, ColumnElement, select, update

from grader_service.storage.database import Unit
from grader_service.storage.tables import gradings

T = TypeVar("T")


def publish_due(unit: Unit, *, judges: Sequence[str], limit: int, stale_s: float) -> list[str]:
    """Mark up to `limit` due rows as published and return their ids, the next one first.

    A row that was published more than `stale_s` ago and is still queued is due again: the broker
    lost it.
    """
    chosen = _take_turns([_next_of_judge(unit, judge, limit, stale_s) for judge in judges], limit)
    if chosen:
        # Nobody else has changed them: SQLite has one writer, elsewhere they are locked.
        unit.execute(
            update(gradings).where(gradings.c.id.in_(chosen)).values(published_at=unit.now)
        )
    return chosen


def unpublish(unit: Unit, ids: Sequence[str] | None = None) -> None:
    """Make queued rows due at once: `ids`, or all of them after the broker lost its data."""
    statement = update(gradings).where(gradings.c.state == "queued", gradings.c.published_at > 0)
    if ids is not None:
        statement = statement.where(gradings.c.id.in_(ids))
    unit.execute(statement.values(published_at=0.0))


def _next_of_judge(unit: Unit, judge: str, limit: int, stale_s: float) -> list[str]:
    chosen: list[str] = []
    of_judge = (gradings.c.state == "queued", gradings.c.judge == judge)
    for priority in reversed([*_values(unit, gradings.c.priority, *of_judge)]):
        room = limit - len(chosen)
        if room <= 0:
            break
        of_priority = (*of_judge, gradings.c.priority == priority)
        queues = [
            _due(unit, *of_run, limit=room, stale_s=stale_s) for of_run in _runs(unit, *of_priority)
        ]
        chosen += _take_turns(queues, room)
    return chosen


def _runs(unit: Unit, *where: ColumnElement[bool]) -> Iterator[tuple[ColumnElement[bool], ...]]:
    """Return the conditions that give the rows of each run, of those of all runs."""
    # One column after the other: SQLite walks through the rows of a (tenant, run) > (?, ?).
    for tenant in _values(unit, gradings.c.tenant, *where):
        of_tenant = (*where, gradings.c.tenant == tenant)
        for run in _values(unit, gradings.c.run, *of_tenant):
            yield (*of_tenant, gradings.c.run == run)


def _take_turns(queues: Sequence[Sequence[str]], limit: int) -> list[str]:
    """Return up to `limit` ids, one of each queue after the other.

    In a random order of the queues: where there is room for one id only, it must not be the same
    queue's each time.
    """
    shuffled = random.sample(queues, len(queues))
    longest = max((len(queue) for queue in queues), default=0)
    turns = (queue[turn] for turn in range(longest) for queue in shuffled if turn < len(queue))
    return [grading_id for _, grading_id in zip(range(limit), turns, strict=False)]


def _due(unit: Unit, *where: ColumnElement[bool], limit: int, stale_s: float) -> list[str]:
    statement = (
        select(gradings.c.id)
        .where(
            *where,
            gradings.c.not_before <= unit.now,
            gradings.c.published_at < unit.now - stale_s,
        )
        .order_by(gradings.c.not_before, gradings.c.id)
        .limit(limit)
        # Several pumps share the work instead of waiting for each other (ignored by SQLite).
        .with_for_update(skip_locked=True)
    )
    return list(unit.execute(statement).scalars())


def _values(unit: Unit, column: Column[T], *where: ColumnElement[bool]) -> Iterator[T]:
    """Return the distinct values of a column in rising order, with an index probe for each."""
    smallest = select(column).where(*where).order_by(column).limit(1)
    value = unit.execute(smallest).scalar()
    while value is not None:
        yield value
        value = unit.execute(smallest.where(column > value)).scalar()
