"""Publishing: who goes next, and at which cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import event, insert, select, text

from grader_service.records.verdict import Decision
from grader_service.storage import gradings, publishing
from grader_service.storage.database import Database
from grader_service.storage.ids import new_id
from grader_service.storage.tables import gradings as table
from grader_service.storage.tables import trials
from tests.storage.conftest import Clock
from tests.support.queueing import claimed, enqueue


def publish(database: Database, limit: int = 100, judges: Sequence[str] = ("j",)) -> list[str]:
    with database.write() as unit:
        return publishing.publish_due(unit, judges=judges, limit=limit, stale_s=30)


def test_a_published_row_is_not_published_again_until_it_is_stale(
    database: Database, clock: Clock
) -> None:
    [grading_id] = enqueue(database)
    assert publish(database) == [grading_id]
    assert publish(database) == []
    clock.now += 31
    assert publish(database) == [grading_id]


def test_a_row_that_was_put_back_is_published_when_its_time_has_come(
    database: Database, clock: Clock
) -> None:
    [grading_id] = enqueue(database)
    claim = claimed(database, grading_id)
    with database.write() as unit:
        gradings.put_back(unit, claim, delay_s=10, counts=True, error="500")
    assert publish(database) == []
    clock.now += 10
    assert publish(database) == [grading_id]


def test_after_the_broker_lost_its_data_queued_rows_are_due_at_once(database: Database) -> None:
    waiting, running = enqueue(database, ["r1", "r1"])
    publish(database)
    claimed(database, running)
    with database.write() as unit:
        publishing.unpublish(unit)
    assert publish(database) == [waiting]


def test_a_large_run_does_not_hold_up_a_small_one(database: Database) -> None:
    ids = enqueue(database, ["big"] * 20 + ["small"] * 2)
    assert set(publish(database, limit=4)) == {*ids[:2], *ids[20:]}


def test_where_there_is_room_for_one_only_runs_still_take_turns(database: Database) -> None:
    ids = enqueue(database, ["a"] * 60 + ["b"] * 60)
    runs = Counter("ab"[ids.index(publish(database, limit=1)[0]) // 60] for _ in range(60))
    # A fair coin gives fewer than 5 of 60 once in 10^12.
    assert min(runs["a"], runs["b"]) >= 5


def test_one_judge_does_not_hold_up_another(database: Database) -> None:
    busy = enqueue(database, ["r1"] * 20, judge="busy")
    other = enqueue(database, ["r2"] * 2, judge="other")
    published = publish(database, limit=4, judges=["busy", "other"])
    assert set(published) == {*busy[:2], *other}


def test_rows_of_a_judge_that_a_worker_does_not_have_are_left_alone(database: Database) -> None:
    enqueue(database, judge="other")
    assert publish(database, judges=["", "j"]) == []


def test_the_oldest_row_of_a_run_comes_first(database: Database) -> None:
    ids = enqueue(database, ["r1"] * 5)
    assert publish(database, limit=3) == ids[:3]


def test_a_higher_priority_goes_first_whatever_its_run(database: Database) -> None:
    low = enqueue(database, ["r1", "r2"], priority=-10)
    usual = enqueue(database, ["r1", "r2"])
    high = enqueue(database, ["r2", "r3"], priority=10)
    published = publish(database)
    assert [set(published[i : i + 2]) for i in (0, 2, 4)] == [set(high), set(usual), set(low)]


def test_a_high_priority_that_waits_for_its_time_holds_up_nobody(database: Database) -> None:
    [high] = enqueue(database, priority=5)
    [usual] = enqueue(database)
    claim = claimed(database, high)
    with database.write() as unit:
        gradings.put_back(unit, claim, delay_s=60, counts=False, error="429")
    assert publish(database) == [usual]


def store_many(database: Database, count: int) -> list[str]:
    """Enqueue gradings of four runs by the thousand."""
    [sample] = enqueue(database, ["sample"])
    with database.write() as unit:
        row = unit.execute(select(table).where(table.c.id == sample)).one()._asdict()
        trial = unit.execute(select(trials).where(trials.c.id == row["trial_id"])).one()._asdict()
        ids = [new_id() for _ in range(count)]
        unit.execute(insert(trials), [trial | {"id": id_} for id_ in ids])
        unit.execute(
            insert(table),
            [
                row | {"id": id_, "trial_id": id_, "run": f"run {number % 4}"}
                for number, id_ in enumerate(ids)
            ],
        )
    return ids


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_hundred_times_as_many_rows_cost_a_round_and_a_claim_no_more(
    database: Database,
) -> None:
    steps = 0

    @event.listens_for(database.engine, "checkout")
    def _count(connection: Any, *_: object) -> None:
        def step() -> None:
            nonlocal steps
            steps += 1

        # An instruction of SQLite's virtual machine, unlike a second, is the same everywhere.
        connection.set_progress_handler(step, 1)

    def cost() -> int:
        before = steps
        [*_, last] = publish(database, limit=16)
        claim = claimed(database, last)
        with database.write() as unit:
            assert gradings.finish(unit, claim, Decision.graded("success"), judge_digest="jd")
        return steps - before

    store_many(database, 200)
    few = cost()
    store_many(database, 20_000)
    assert cost() < 1.3 * few


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_rows_whose_time_has_not_come_are_not_even_looked_at(database: Database) -> None:
    enqueue(database, ["a"] * 3)
    # By the server's clock: with a number in its place every plan is as good.
    by_server = Database(database.url)
    statements: list[tuple[str, Any]] = []

    @event.listens_for(by_server.engine, "before_cursor_execute")
    def _note(_c: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        statements.append((statement, parameters))

    publish(by_server)
    due, parameters = next(sent for sent in statements if "FOR UPDATE" in sent[0])
    with by_server.read() as unit:
        for other in ("seqscan", "bitmapscan", "sort"):
            unit.execute(text(f"SET LOCAL enable_{other} = off"))
        plan = unit.connection.exec_driver_sql(f"EXPLAIN {due}", parameters).scalars().all()
    by_server.close()
    [condition] = [line for line in plan if "Index Cond" in line]
    assert "not_before" in condition
