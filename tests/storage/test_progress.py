"""What ended in a run can be read in its order, from any position on."""

from __future__ import annotations

import pytest

from grader_service.records.verdict import Decision
from grader_service.storage import gradings, trials
from grader_service.storage.database import Database, Unit
from grader_service.storage.progress import BEGINNING, Position, ended_after
from tests.storage.conftest import Clock

RUBRIC = "r" * 64


def add(unit: Unit, run: str = "r") -> str:
    """Store a trial and return the id of its grading."""
    trials.put_rubric(unit, digest=RUBRIC, rubric_id="x", body={})
    new = trials.NewTrial("t", run, None, "c", "robot", "s", 0, None, RUBRIC, "d", [], [])
    return gradings.enqueue(
        unit,
        trial_id=trials.add(unit, new),
        tenant="t",
        run=run,
        rubric_digest=RUBRIC,
        judge="j",
        judge_digest="",
    )


def finish(unit: Unit, grading_id: str) -> None:
    claim = gradings.claim(unit, grading_id, owner="w", lease_s=30)
    assert claim is not None
    assert gradings.finish(unit, claim, Decision.graded("success"), judge_digest="j")


def ended(database: Database, position: Position = BEGINNING, limit: int = 100) -> list[str]:
    with database.read() as unit:
        rows = ended_after(unit, tenant="t", run="r", position=position, limit=limit)
    return [row.id for row in rows]


def test_what_was_graded_and_what_was_cancelled_stand_in_the_order_of_their_ends(
    database: Database, clock: Clock
) -> None:
    with database.write() as unit:
        ids = [add(unit) for _ in range(4)]
        add(unit, run="another")
    for number in (2, 0):
        clock.now += 1
        with database.write() as unit:
            finish(unit, ids[number])
    clock.now += 1
    with database.write() as unit:
        gradings.cancel(unit, [ids[3]])
    assert ended(database) == [ids[2], ids[0], ids[3]]


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_of_ends_at_the_same_time_none_is_left_out_and_none_comes_twice(
    database: Database, clock: Clock, limit: int
) -> None:
    with database.write() as unit:
        ids = [add(unit) for _ in range(5)]
        gradings.cancel(unit, ids)
    seen: list[str] = []
    while page := ended(database, (clock.now, seen[-1]) if seen else BEGINNING, limit):
        seen += page
    assert seen == sorted(ids)
