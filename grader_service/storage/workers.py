"""Workers: which processes are up, and when each last made progress."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, func, insert, select, update

from grader_service.storage import gradings
from grader_service.storage.database import Unit
from grader_service.storage.tables import workers


def boot(unit: Unit, *, node: str, boot_id: str, judges: Sequence[str]) -> int:
    """Register a worker process. What its predecessor of the same name held is given free.

    Returns how many gradings were given free.
    """
    unit.execute(delete(workers).where(workers.c.node == node))
    unit.execute(
        insert(workers).values(
            node=node, boot_id=boot_id, judges=list(judges), in_flight=0, last_tick=unit.now
        )
    )
    return gradings.release_owner(unit, node)


def tick(unit: Unit, *, node: str, boot_id: str, in_flight: int) -> None:
    """Note that a worker's pump made a round."""
    unit.execute(
        update(workers)
        .where(workers.c.node == node, workers.c.boot_id == boot_id)
        .values(last_tick=unit.now, in_flight=in_flight)
    )


def seen(unit: Unit, *, within_s: float) -> list[Any]:
    """Return rows (node, judges, in_flight, age) of the workers that ticked within `within_s`."""
    age = (unit.now - workers.c.last_tick).label("age")
    return list(
        unit.execute(
            select(workers.c.node, workers.c.judges, workers.c.in_flight, age)
            .where(workers.c.last_tick > unit.now - within_s)
            .order_by(workers.c.node)
        )
    )


def newest_tick(unit: Unit) -> float | None:
    """Return the age in seconds of the newest tick of any worker, or None."""
    age = unit.execute(select(func.min(unit.now - workers.c.last_tick))).scalar()
    return None if age is None else float(age)
