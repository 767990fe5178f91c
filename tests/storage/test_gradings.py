"""Grading rows: every transition of the state diagram, and what a lost lease may not do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from grader_service.records.verdict import Decision
from grader_service.storage import gradings
from grader_service.storage.database import Database
from tests.storage.conftest import Clock
from tests.support.queueing import RUBRIC, enqueue
from tests.support.queueing import claimed as held

SUCCESS = Decision.graded("success")
OUTAGE = Decision.ungraded("provider_unavailable")


def claim(database: Database, grading_id: str, *, owner: str = "w") -> gradings.Claim | None:
    with database.write() as unit:
        return gradings.claim(unit, grading_id, owner=owner, lease_s=30)


def finish(database: Database, claimed: gradings.Claim, decision: Decision = SUCCESS) -> bool:
    with database.write() as unit:
        return gradings.finish(unit, claimed, decision, judge_digest="jd")


def cancel(database: Database, *ids: str) -> int:
    with database.write() as unit:
        return gradings.cancel(unit, ids)


def retry(database: Database, *trial_ids: str) -> list[str]:
    with database.write() as unit:
        return gradings.retry(unit, trial_ids)


def test_a_row_can_be_claimed_once(database: Database) -> None:
    [grading_id] = enqueue(database)
    assert claim(database, grading_id) is not None
    assert claim(database, grading_id) is None


def test_of_many_workers_that_claim_one_row_exactly_one_gets_it(database: Database) -> None:
    [grading_id] = enqueue(database)
    with ThreadPoolExecutor(8) as pool:
        claims = list(pool.map(lambda _: claim(database, grading_id), range(8)))
    assert sum(claimed is not None for claimed in claims) == 1


def test_a_finished_row_can_neither_be_claimed_nor_finished_again(database: Database) -> None:
    [grading_id] = enqueue(database)
    claimed = held(database, grading_id)
    assert finish(database, claimed)
    assert not finish(database, claimed)
    assert claim(database, grading_id) is None


def test_a_worker_that_wakes_up_after_its_lease_cannot_write_anything(
    database: Database, clock: Clock
) -> None:
    [grading_id] = enqueue(database)
    frozen = held(database, grading_id)
    clock.now += 31
    taken_over = held(database, grading_id)
    assert not finish(database, frozen)
    with database.write() as unit:
        assert not gradings.put_back(unit, frozen, delay_s=0, counts=True, error="late")
        assert gradings.renew(unit, {frozen.id: frozen.token}, lease_s=30) == set()
    assert finish(database, taken_over)


def test_a_renewed_lease_is_not_taken_over(database: Database, clock: Clock) -> None:
    [grading_id] = enqueue(database)
    claimed = held(database, grading_id)
    clock.now += 29
    with database.write() as unit:
        assert gradings.renew(unit, {claimed.id: claimed.token}, lease_s=30) == {grading_id}
    clock.now += 29
    assert claim(database, grading_id) is None


def test_a_row_that_was_put_back_waits_for_its_time(database: Database, clock: Clock) -> None:
    [grading_id] = enqueue(database)
    claimed = held(database, grading_id)
    with database.write() as unit:
        assert gradings.put_back(unit, claimed, delay_s=10, counts=True, error="500")
    assert claim(database, grading_id) is None
    clock.now += 10
    assert held(database, grading_id).failures == 1


def test_a_wait_that_is_nobodys_fault_counts_no_failure(database: Database) -> None:
    [grading_id] = enqueue(database)
    for _ in range(gradings.MAX_FAILURES + 1):
        claimed = held(database, grading_id)
        with database.write() as unit:
            gradings.put_back(unit, claimed, delay_s=0, counts=False, error="429")
    assert held(database, grading_id).failures == 0


def test_an_expired_lease_returns_to_the_queue_and_is_counted(
    database: Database, clock: Clock
) -> None:
    [grading_id] = enqueue(database)
    held(database, grading_id)
    with database.write() as unit:
        assert gradings.expire_leases(unit) == []
    clock.now += 31
    with database.write() as unit:
        assert gradings.expire_leases(unit) == []
    assert held(database, grading_id).lost_leases == 1


def test_a_trial_on_which_workers_keep_dying_ends_as_worker_lost(
    database: Database, clock: Clock
) -> None:
    [grading_id] = enqueue(database)
    for death in range(gradings.MAX_LOST_LEASES):
        assert held(database, grading_id).lost_leases == death
        clock.now += 31
        with database.write() as unit:
            lost = gradings.expire_leases(unit)
    assert lost == [grading_id]
    with database.write() as unit:
        assert gradings.end_lost(unit, grading_id) is not None
    assert claim(database, grading_id) is None


def test_taking_over_an_expired_lease_counts_it_as_lost(database: Database, clock: Clock) -> None:
    [grading_id] = enqueue(database)
    held(database, grading_id)
    clock.now += 31
    assert held(database, grading_id).lost_leases == 1


def test_a_restarted_worker_frees_what_its_predecessor_held(database: Database) -> None:
    first, second = enqueue(database, ["r1", "r1"])
    claim(database, first, owner="mine")
    claim(database, second, owner="other")
    with database.write() as unit:
        assert gradings.release_owner(unit, "mine") == 1
    assert claim(database, first) is not None
    assert claim(database, second) is None


@pytest.mark.parametrize("round_", [0, 1])
def test_one_judge_grades_a_trial_under_one_rubric_once_in_a_round(
    database: Database, round_: int
) -> None:
    [grading_id] = enqueue(database)
    trial_id = held(database, grading_id).trial_id
    arguments: dict[str, Any] = {
        "trial_id": trial_id,
        "tenant": "t",
        "run": "r1",
        "rubric_digest": RUBRIC,
        "judge": "j",
        "judge_digest": "jd",
    }
    with database.write() as unit:
        gradings.enqueue(unit, **arguments, round_=round_ + 1)
    with pytest.raises(Exception, match=r"(?i)unique"), database.write() as unit:
        gradings.enqueue(unit, **arguments, round_=round_ + 1)


def test_a_cancelled_row_is_neither_claimed_nor_finished(database: Database) -> None:
    queued, running = enqueue(database, ["r1", "r1"])
    claimed = held(database, running)
    assert cancel(database, queued, running) == 2
    assert claim(database, queued) is None
    assert not finish(database, claimed)
    with database.write() as unit:
        assert not gradings.put_back(unit, claimed, delay_s=0, counts=True, error="late")
        assert gradings.renew(unit, {claimed.id: claimed.token}, lease_s=30) == set()


def test_what_has_ended_can_not_be_cancelled(database: Database) -> None:
    [grading_id] = enqueue(database)
    finish(database, held(database, grading_id))
    assert cancel(database, grading_id) == 0


@pytest.mark.parametrize("ending", ["ungraded", "cancelled"])
def test_a_trial_that_ended_without_a_verdict_gets_one_more_round(
    database: Database, ending: str
) -> None:
    [first] = enqueue(database, priority=3)
    claimed = held(database, first)
    if ending == "ungraded":
        finish(database, claimed, OUTAGE)
    else:
        cancel(database, first)
    [second] = retry(database, claimed.trial_id)
    # While one is on its way, nothing is there to be retried.
    assert retry(database, claimed.trial_id) == []
    again = held(database, second)
    assert (again.trial_id, again.round, again.judge) == (claimed.trial_id, 1, "j")
    assert (again.failures, again.lost_leases) == (0, 0)
    with database.read() as unit:
        assert gradings.latest_of(unit, [claimed.trial_id])[claimed.trial_id].priority == 3


def test_a_trial_that_has_a_verdict_is_not_retried(database: Database) -> None:
    [grading_id] = enqueue(database)
    claimed = held(database, grading_id)
    finish(database, claimed)
    assert retry(database, claimed.trial_id) == []


def test_of_two_retries_at_once_one_queues_a_round(database: Database) -> None:
    [grading_id] = enqueue(database)
    claimed = held(database, grading_id)
    finish(database, claimed, OUTAGE)
    with ThreadPoolExecutor(4) as pool:
        queued = list(pool.map(lambda _: retry(database, claimed.trial_id), range(4)))
    assert sum(map(len, queued)) == 1
