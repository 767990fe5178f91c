"""What ended in a run since somebody looked last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from grader_service.grading.read import TrialView, trials_by_id
from grader_service.grading.service import Service
from grader_service.storage import progress
from grader_service.storage.progress import BEGINNING, Position

_BATCH: Final = 200
# Seconds. A row may come to light so long after the time that it bears: between the two its
# transaction stores the verdict.
_LATE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Ended:
    """A trial that has no grading before it any more, and where its end stands in the order."""

    position: Position
    trial: TrialView


class Follower:
    """Gives what ended in a run, from a position on: each end once, those that come late too."""

    def __init__(self, service: Service, run: str, after: Position = BEGINNING) -> None:
        self._service = service
        self._run = run
        self._position = _before(after)
        self._seen: dict[str, float] = {}

    def batch(self) -> tuple[Sequence[Ended], bool]:
        """Return the next ends, and whether there may be more now."""
        with self._service.database.read() as unit:
            rows = progress.ended_after(
                unit,
                tenant=self._service.tenant,
                run=self._run,
                position=self._position,
                limit=_BATCH,
            )
        new = [row for row in rows if row.id not in self._seen]
        self._seen |= {row.id: row.done_at for row in new}
        more = len(rows) == _BATCH
        if more:
            self._position = (rows[-1].done_at, rows[-1].id)
        else:
            self._look_back(rows[-1].done_at if rows else self._position[0])
        views = trials_by_id(self._service, [row.trial_id for row in new])
        ended = [
            Ended((row.done_at, row.id), views[row.trial_id])
            for row in new
            # It may have been pruned meanwhile.
            if row.trial_id in views
        ]
        return ended, more

    def _look_back(self, newest: float) -> None:
        self._position = _before((newest, ""))
        self._seen = {id_: at for id_, at in self._seen.items() if at >= self._position[0]}


def _before(position: Position) -> Position:
    return (position[0] - _LATE_S, "")
