"""Grading rows: every transition of the state diagram, and what a lost lease may not do."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from grader_service.records.verdict import Decision
from grader_service.storage import gradings, trials
from grader_service.storage.database import Database
from tests.storage.conftest import Clock

RUBRIC = "r" * 64
SUCCESS = Decision.graded("success")


def queue(database: Database, runs: Sequence[str] = ("r1",), *, judge: str = "j") -> list[str]:
    """Store a trial with a queued grading for each entry of `runs`; return the gradings' ids."""
    with database.write() as unit:
        trials.put_rubric(unit, digest=RUBRIC, rubric_id="robot/x", body={})
        ids = []
        for run in runs:
            trial_id = trials.add(
                unit,
                trials.NewTrial("t", run, None, "c", "robot", "s", 0, None, RUBRIC, "d", [], []),
            )
            ids.append(
                gradings.enqueue(
                    unit,
                    trial_id=trial_id,
                    tenant="t",
                    run=run,
                    rubric_digest=RUBRIC,
                    judge=judge,
                    judge_digest="jd",
                )
            )
    return ids


def claim(database: Database, grading_id: str, *, owner: str = "w") -> gradings.Claim | None:
    with database.write() as unit:
        return gradings.claim(unit, grading_id, owner=owner, lease_s=30)


def held(database: Database, grading_id: str) -> gradings.Claim:
    claimed = claim(database, grading_id)
    assert claimed is not None
    return claimed


def finish(database: Database, claimed: gradings.Claim) -> bool:
    with database.write() as unit:
        return gradings.finish(unit, claimed, SUCCESS, judge_digest="jd")


def publish(database: Database, limit: int = 100, judges: Sequence[str] = ("j",)) -> list[str]:
    with database.write() as unit:
        return gradings.publish_due(unit, judges=judges, limit=limit, stale_s=30)


def test_a_row_can_be_claimed_once(database: Database) -> None:
    [grading_id] = queue(database)
    assert claim(database, grading_id) is not None
    assert claim(database, grading_id) is None


def test_of_many_workers_that_claim_one_row_exactly_one_gets_it(database: Database) -> None:
    [grading_id] = queue(database)
    with ThreadPoolExecutor(8) as pool:
        claims = list(pool.map(lambda _: claim(database, grading_id), range(8)))
    assert sum(claimed is not None for claimed in claims) == 1


def test_a_finished_row_can_neither_be_claimed_nor_finished_again(database: Database) -> None:
    [grading_id] = queue(database)
    claimed = held(database, grading_id)
    assert finish(database, claimed)
    assert not finish(database, claimed)
    assert claim(database, grading_id) is None


def test_a_worker_that_wakes_up_after_its_lease_cannot_write_anything(
    database: Database, clock: Clock
) -> None:
    [grading_id] = queue(database)
    frozen = held(database, grading_id)
    clock.now += 31
    taken_over = held(database, grading_id)
    assert not finish(database, frozen)
    with database.write() as unit:
        assert not gradings.put_back(unit, frozen, delay_s=0, counts=True, error="late")
        assert gradings.renew(unit, {frozen.id: frozen.token}, lease_s=30) == set()
    assert finish(database, taken_over)


def test_a_renewed_lease_is_not_taken_over(database: Database, clock: Clock) -> None:
    [grading_id] = queue(database)
    claimed = held(database, grading_id)
    clock.now += 29
    with database.write() as unit:
        assert gradings.renew(unit, {claimed.id: claimed.token}, lease_s=30) == {grading_id}
    clock.now += 29
    assert claim(database, grading_id) is None


def test_a_row_that_was_put_back_waits_for_its_time(database: Database, clock: Clock) -> None:
    [grading_id] = queue(database)
    claimed = held(database, grading_id)
    with database.write() as unit:
        assert gradings.put_back(unit, claimed, delay_s=10, counts=True, error="500")
    assert claim(database, grading_id) is None
    assert publish(database) == []
    clock.now += 10
    assert publish(database) == [grading_id]
    assert held(database, grading_id).failures == 1


def test_a_wait_that_is_nobodys_fault_counts_no_failure(database: Database) -> None:
    [grading_id] = queue(database)
    for _ in range(gradings.MAX_FAILURES + 1):
        claimed = held(database, grading_id)
        with database.write() as unit:
            gradings.put_back(unit, claimed, delay_s=0, counts=False, error="429")
    assert held(database, grading_id).failures == 0


def test_an_expired_lease_returns_to_the_queue_and_is_counted(
    database: Database, clock: Clock
) -> None:
    [grading_id] = queue(database)
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
    [grading_id] = queue(database)
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
    [grading_id] = queue(database)
    held(database, grading_id)
    clock.now += 31
    assert held(database, grading_id).lost_leases == 1


def test_a_restarted_worker_frees_what_its_predecessor_held(database: Database) -> None:
    first, second = queue(database, ["r1", "r1"])
    claim(database, first, owner="mine")
    claim(database, second, owner="other")
    with database.write() as unit:
        assert gradings.release_owner(unit, "mine") == 1
    assert claim(database, first) is not None
    assert claim(database, second) is None


def test_a_published_row_is_not_published_again_until_it_is_stale(
    database: Database, clock: Clock
) -> None:
    [grading_id] = queue(database)
    assert publish(database) == [grading_id]
    assert publish(database) == []
    clock.now += 31
    assert publish(database) == [grading_id]


def test_after_the_broker_lost_its_data_queued_rows_are_due_at_once(database: Database) -> None:
    waiting, running = queue(database, ["r1", "r1"])
    publish(database)
    claim(database, running)
    with database.write() as unit:
        gradings.unpublish(unit)
    assert publish(database) == [waiting]


def test_a_large_run_does_not_hold_up_a_small_one(database: Database) -> None:
    ids = queue(database, ["big"] * 20 + ["small"] * 2)
    published = publish(database, limit=4)
    assert set(published) == {*ids[:2], *ids[20:]}


def test_rows_of_a_judge_that_a_worker_does_not_have_are_left_alone(database: Database) -> None:
    queue(database, judge="other")
    assert publish(database, judges=["", "j"]) == []


def test_the_oldest_row_of_a_run_comes_first(database: Database) -> None:
    ids = queue(database, ["r1"] * 5)
    assert publish(database, limit=3) == ids[:3]


def test_depth_tells_queued_due_and_running_rows(database: Database) -> None:
    ids = queue(database, ["r1"] * 3)
    claim(database, ids[0])
    put_back = held(database, ids[1])
    with database.write() as unit:
        gradings.put_back(unit, put_back, delay_s=60, counts=False, error="429")
    with database.read() as unit:
        assert gradings.depth(unit) == {"queued": 2, "running": 1, "due": 1}


@pytest.mark.parametrize("round_", [0, 1])
def test_one_judge_grades_a_trial_under_one_rubric_once_in_a_round(
    database: Database, round_: int
) -> None:
    [grading_id] = queue(database)
    trial_id = held(database, grading_id).trial_id
    arguments = {
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
