"""Retention: which trials are old enough to go, and what hangs on them."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from grader_service.records.verdict import Decision
from grader_service.storage import gradings, retention, verdicts
from grader_service.storage.database import Database
from grader_service.storage.retention import Rows
from grader_service.storage.tables import trials
from tests.storage.conftest import Clock
from tests.support.queueing import claimed, enqueue

OUTAGE = Decision.ungraded("timeout")


def end(database: Database, grading_id: str) -> str:
    claim = claimed(database, grading_id)
    with database.write() as unit:
        gradings.finish(unit, claim, OUTAGE, judge_digest="jd")
        verdicts.append(
            unit, trial_id=claim.trial_id, grading_id=claim.id, source="vlm", decision=OUTAGE
        )
    return claim.trial_id


def ended_before(database: Database, age_s: float, run: str | None = None) -> list[str]:
    with database.write() as unit:
        return retention.ended_before(unit, tenant="t", age_s=age_s, run=run)


def test_a_trial_is_as_old_as_the_last_thing_that_happened_to_it(
    database: Database, clock: Clock
) -> None:
    old, spoken_of, unfinished = enqueue(database, ["r1", "r2", "r1"])
    clock.now += 100
    first, second = end(database, old), end(database, spoken_of)
    claimed(database, unfinished)
    clock.now += 100
    with database.write() as unit:
        verdicts.append(unit, trial_id=second, source="human", decision=Decision.graded("success"))
    clock.now += 50
    assert ended_before(database, 150) == []
    assert ended_before(database, 149) == [first]
    assert ended_before(database, 40) == [first, second]
    assert ended_before(database, 40, run="r2") == [second]
    with database.write() as unit:
        gradings.retry(unit, [first])
    assert ended_before(database, 40) == [second]


def test_trials_go_with_their_gradings_and_verdicts(database: Database, clock: Clock) -> None:
    gone, kept = (end(database, grading_id) for grading_id in enqueue(database, ["r1", "r1"]))
    with database.write() as unit:
        [again] = gradings.retry(unit, [gone])
    end(database, again)
    with database.write() as unit:
        assert retention.count(unit, [gone]) == Rows(trials=1, gradings=2, verdicts=2)
        assert retention.delete_trials(unit, [gone]) == Rows(trials=1, gradings=2, verdicts=2)
        assert retention.count(unit, [gone]) == Rows()
        assert retention.count(unit, [kept]) == Rows(trials=1, gradings=1, verdicts=1)


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_trial_that_just_gets_another_round_is_left_alone(
    database: Database, clock: Clock
) -> None:
    [grading_id] = enqueue(database)
    trial_id = end(database, grading_id)
    clock.now += 100
    with database.write() as unit:
        gradings.retry(unit, [trial_id])
        # That transaction has not ended: nobody else sees the round yet.
        assert ended_before(database, 50) == []


def test_every_blob_of_every_tenants_trial_is_needed(database: Database) -> None:
    [grading_id] = enqueue(database)
    enqueue(database, tenant="somebody else")
    trial_id = end(database, grading_id)
    with database.write() as unit:
        unit.execute(update(trials).values(record_digest="other"))
        unit.execute(
            update(trials)
            .where(trials.c.id == trial_id)
            .values(record_digest="r", columns=["c1", "c2"], frames=[{"sha256": "f"}])
        )
    assert sorted(retention.needed_blobs(database)) == ["c1", "c2", "f", "other", "r"]
    assert list(retention.needed_blobs(database, without={trial_id})) == ["other"]
