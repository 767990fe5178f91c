"""Workers: which processes are up, and when each last made progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import delete, insert, select, update

from grader_service.storage import gradings
from grader_service.storage.database import Unit
from grader_service.storage.tables import workers

# A worker's pump makes several rounds in this time.
ALIVE_S: Final = 5.0
# A worker that was silent for so long is not expected back.
FORGET_S: Final = 86_400.0


def boot(unit: Unit, *, node: str, boot_id: str, judges: Sequence[str]) -> int:
    """Register a worker process. What its predecessor of the same name held is given free.

    Returns how many gradings were given free.
    """
    unit.execute(
        delete(workers).where(
            (workers.c.node == node) | (workers.c.last_tick < unit.now - FORGET_S)
        )
    )
    unit.execute(
        insert(workers).values(
            node=node,
            boot_id=boot_id,
            judges=list(judges),
            in_flight=0,
            last_tick=unit.now,
            last_progress=unit.now,
        )
    )
    return gradings.release_owner(unit, node)


def tick(
    unit: Unit,
    *,
    node: str,
    boot_id: str,
    in_flight: int,
    progress: bool = True,
    trouble: str | None = None,
    paused: Mapping[str, str] | None = None,
) -> None:
    """Note that a worker's pump made a round, and whether the worker made progress since.

    `paused` is what keeps judges from being asked, by judge.
    """
    values = {
        "last_tick": unit.now,
        "in_flight": in_flight,
        "trouble": trouble,
        "paused": dict(paused or {}),
    }
    if progress:
        values["last_progress"] = unit.now
    unit.execute(
        update(workers).where(workers.c.node == node, workers.c.boot_id == boot_id).values(**values)
    )


def leave(unit: Unit, *, node: str, boot_id: str) -> None:
    """Forget a worker that ended in order."""
    unit.execute(delete(workers).where(workers.c.node == node, workers.c.boot_id == boot_id))


def seen(unit: Unit, *, within_s: float, node: str | None = None) -> list[Any]:
    """Return the workers that ticked within `within_s` seconds: all, or the one of a name.

    Rows (node, judges, in_flight, trouble, paused, age, idle): `age` is the time since its last
    tick, `idle` since its last progress, in seconds.
    """
    age = (unit.now - workers.c.last_tick).label("age")
    idle = (unit.now - workers.c.last_progress).label("idle")
    told = (workers.c.in_flight, workers.c.trouble, workers.c.paused)
    columns = (workers.c.node, workers.c.judges, *told, age, idle)
    statement = select(*columns).where(workers.c.last_tick > unit.now - within_s)
    if node is not None:
        statement = statement.where(workers.c.node == node)
    return list(unit.execute(statement.order_by(workers.c.node)))


def paused_judges(unit: Unit) -> dict[str, str]:
    """Return what keeps judges from being asked, by judge: what live workers know of it."""
    return {
        judge: why
        for worker in seen(unit, within_s=ALIVE_S)
        for judge, why in (worker.paused or {}).items()
    }
