"""What the queue looks like, and which trials may be retried or cancelled."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from grader_service.records.verdict import Decision
from grader_service.storage import gradings, queue_state, verdicts
from grader_service.storage.database import Database
from grader_service.storage.queue_state import CANCELLED, DEAD_REASONS
from tests.storage.conftest import Clock
from tests.support.queueing import claimed, enqueue


def put_back(database: Database, grading_id: str, *, error: str, delay_s: float) -> None:
    claim = claimed(database, grading_id)
    with database.write() as unit:
        gradings.put_back(unit, claim, delay_s=delay_s, counts=False, error=error)


def end(database: Database, grading_id: str, decision: Decision) -> str:
    """End a grading as a worker does; return its trial."""
    claim = claimed(database, grading_id)
    with database.write() as unit:
        assert gradings.finish(unit, claim, decision, judge_digest="jd")
        verdicts.append(
            unit, trial_id=claim.trial_id, grading_id=claim.id, source="vlm", decision=decision
        )
    return claim.trial_id


def ended(database: Database, reasons: Sequence[str] = (), run: str | None = None) -> list[str]:
    with database.read() as unit:
        return queue_state.ended_trials(unit, tenant="t", reasons=reasons or DEAD_REASONS, run=run)


def dead(database: Database) -> dict[tuple[str, str], int]:
    with database.read() as unit:
        rows = queue_state.dead_by_judge(unit, tenant="t")
    return {(row.judge, row.reason): row.n for row in rows}


def test_queued_due_and_running_rows_are_told_apart(database: Database, clock: Clock) -> None:
    ids = enqueue(database, ["r1"] * 3)
    clock.now += 7
    enqueue(database, judge="other")
    enqueue(database, tenant="somebody else")
    claimed(database, ids[1])
    put_back(database, ids[2], error="429", delay_s=60)
    with database.read() as unit:
        rows = queue_state.unfinished_by_judge(unit, tenant="t")
    assert {(row.judge, row.state, row.n, row.due, row.oldest) for row in rows} == {
        ("j", "queued", 2, 1, 7),
        ("j", "running", 1, 0, 7),
        ("other", "queued", 1, 1, 0),
    }


def test_the_newest_error_of_what_waits_is_shown(database: Database, clock: Clock) -> None:
    first, second, third = enqueue(database, ["r1"] * 3)
    put_back(database, first, error="429 of long ago", delay_s=600)
    clock.now += 10
    put_back(database, second, error="503 of now", delay_s=60)
    clock.now += 1
    put_back(database, third, error="its time has come", delay_s=0)
    with database.read() as unit:
        assert queue_state.newest_error(unit, tenant="t", judge="j") == "503 of now"
        assert queue_state.newest_error(unit, tenant="t", judge="other") is None


def test_dead_is_what_ended_by_our_or_the_providers_fault(database: Database) -> None:
    ids = enqueue(database, ["r1"] * 5)
    trials = [
        end(database, grading_id, decision)
        for grading_id, decision in zip(
            ids,
            [
                Decision.ungraded("worker_lost"),
                Decision.ungraded("provider_unavailable"),
                Decision.ungraded("judge_refused"),
                Decision.abstained("judge_abstained"),
                Decision.graded("success"),
            ],
            strict=True,
        )
    ]
    assert dead(database) == {("j", "worker_lost"): 1, ("j", "provider_unavailable"): 1}
    assert ended(database) == trials[:2]
    assert ended(database, ["judge_refused"]) == [trials[2]]


def test_a_dead_trial_is_not_dead_while_it_is_tried_again_or_once_it_has_a_verdict(
    database: Database,
) -> None:
    retried, reviewed = (
        end(database, grading_id, Decision.ungraded("internal"))
        for grading_id in enqueue(database, ["r1", "r1"])
    )
    with database.write() as unit:
        gradings.retry(unit, [retried])
        verdicts.append(
            unit, trial_id=reviewed, source="human", decision=Decision.graded("success")
        )
    assert dead(database) == {}
    assert ended(database) == []


@pytest.mark.parametrize("run", [None, "r2"])
def test_retrying_can_be_limited_to_a_run(database: Database, run: str | None) -> None:
    of_r1, of_r2 = (
        end(database, grading_id, Decision.ungraded("timeout"))
        for grading_id in enqueue(database, ["r1", "r2"])
    )
    assert ended(database, run=run) == ([of_r1, of_r2] if run is None else [of_r2])


def test_cancelled_trials_are_counted_apart_unless_they_have_a_verdict(
    database: Database,
) -> None:
    new, tried, graded = enqueue(database, ["r1"] * 3)
    outcomes = {tried: Decision.ungraded("timeout"), graded: Decision.graded("success")}
    trials = {grading_id: end(database, grading_id, said) for grading_id, said in outcomes.items()}
    with database.write() as unit:
        again = gradings.retry(unit, [trials[tried]])
        another = gradings.enqueue(
            unit, trial_id=trials[graded], tenant="t", run="r1", rubric_digest="r" * 64,
            judge="j", judge_digest="jd", round_=1,
        )  # fmt: skip
        unfinished = queue_state.unfinished_ids(unit, tenant="t", run="r1")
        assert sorted(unfinished) == sorted([new, *again, another])
        assert gradings.cancel(unit, unfinished) == 3
    with database.read() as unit:
        rows = queue_state.cancelled_of_run(unit, tenant="t", run="r1")
    assert {(row.outcome, row.reason, row.n) for row in rows} == {
        (None, None, 1),
        ("ungraded", "timeout", 1),
    }
    assert len(ended(database, [CANCELLED])) == 2
    assert ended(database) == []
