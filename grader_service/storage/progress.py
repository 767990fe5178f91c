"""What ended in a run, in the order in which it did."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import literal, select, tuple_

from grader_service.storage.database import Unit
from grader_service.storage.tables import gradings

# When a grading ended, and its id: no two have the same.
Position = tuple[float, str]
BEGINNING: Final[Position] = (0.0, "")


def ended_after(unit: Unit, *, tenant: str, run: str, position: Position, limit: int) -> list[Any]:
    """Return up to `limit` rows (done_at, id, trial_id): gradings that ended after a position.

    A row may appear before others that were there already: it has the time of its statement, and is
    seen once its transaction ends.
    """
    return list(
        unit.execute(
            select(gradings.c.done_at, gradings.c.id, gradings.c.trial_id)
            .where(
                gradings.c.tenant == tenant,
                gradings.c.run == run,
                tuple_(gradings.c.done_at, gradings.c.id)
                > tuple_(literal(position[0]), literal(position[1])),
            )
            .order_by(gradings.c.done_at, gradings.c.id)
            .limit(limit)
        )
    )
