"""Verdicts are appended, and the one that counts is noted on its trial."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from grader_service.records.verdict import Decision
from grader_service.storage import trials, verdicts
from grader_service.storage.database import Database
from tests.storage.conftest import Clock

RUBRIC = "r" * 64
OUTAGE = Decision.ungraded("provider_unavailable")


@pytest.fixture
def trial_id(database: Database) -> str:
    with database.write() as unit:
        trials.put_rubric(unit, digest=RUBRIC, rubric_id="x", body={})
        return trials.add(
            unit,
            trials.NewTrial("t", "r1", None, "c", "robot", "s", 0, None, RUBRIC, "d", [], []),
        )


def say(database: Database, clock: Clock, trial_id: str, source: str, decision: Decision) -> None:
    clock.now += 1
    with database.write() as unit:
        verdicts.append(unit, trial_id=trial_id, source=source, decision=decision, note="why")


def effective(database: Database) -> tuple[str | None, str | None]:
    with database.read() as unit:
        [row] = trials.page(unit, tenant="t", limit=9)
    return row.source, row.verdict or row.reason


@pytest.mark.parametrize(
    ("spoken", "counts"),
    [
        ([("vlm", Decision.graded("failure"))], ("vlm", "failure")),
        ([("vlm", Decision.graded("failure")), ("vlm", OUTAGE)], ("vlm", "failure")),
        ([("vlm", OUTAGE), ("vlm", Decision.graded("success"))], ("vlm", "success")),
        ([("vlm", OUTAGE)], ("vlm", "provider_unavailable")),
        (
            [("human", Decision.graded("success")), ("vlm", Decision.graded("failure"))],
            ("human", "success"),
        ),
        (
            [("embodiment", Decision.graded("failure")), ("human", Decision.graded("success"))],
            ("embodiment", "failure"),
        ),
        (
            [("vlm", Decision.abstained("judge_abstained")), ("stub", Decision.graded("success"))],
            ("vlm", "abstain"),
        ),
    ],
)
def test_the_effective_verdict_is_noted_on_the_trial(
    database: Database,
    clock: Clock,
    trial_id: str,
    spoken: list[tuple[str, Decision]],
    counts: tuple[str, str],
) -> None:
    for source, decision in spoken:
        say(database, clock, trial_id, source, decision)
    assert effective(database) == counts
    with database.read() as unit:
        assert len(verdicts.of_trial(unit, trial_id)) == len(spoken)


@pytest.mark.parametrize("note", ["nul \x00 inside", "lone \ud800 surrogate", "é 漢 🤖"])
def test_any_text_of_a_model_can_be_stored(database: Database, trial_id: str, note: str) -> None:
    receipt = {"reply": {"body": {"content": note}}, "number": 10**30, "small": 0.1}
    with database.write() as unit:
        verdicts.append(
            unit,
            trial_id=trial_id,
            source="vlm",
            decision=Decision.graded("success"),
            note=note,
            receipt=receipt,
        )
    with database.read() as unit:
        [verdict] = verdicts.of_trial(unit, trial_id)
    assert verdict.receipt == receipt
    assert verdict.note is not None
    assert "\x00" not in verdict.note


def test_a_verdict_that_is_stored_at_the_same_time_is_not_overlooked(
    database: Database, trial_id: str
) -> None:
    def judge() -> None:
        with database.write() as unit:
            decision = Decision.graded("failure")
            verdicts.append(unit, trial_id=trial_id, source="vlm", decision=decision)

    with ThreadPoolExecutor(1) as pool:
        with database.write() as unit:
            decision = Decision.graded("success")
            verdicts.append(unit, trial_id=trial_id, source="human", decision=decision)
            judged = pool.submit(judge)
            # The judge comes as far as it can before the person's verdict is committed.
            time.sleep(0.5)
        judged.result()
    assert effective(database) == ("human", "success")


def test_the_newest_answer_to_a_question_is_found(
    database: Database, clock: Clock, trial_id: str
) -> None:
    for question, number in (("q1", 1), ("q2", 2), (None, 3), ("q1", 4)):
        clock.now += 1
        with database.write() as unit:
            verdicts.append(
                unit,
                trial_id=trial_id,
                source="vlm",
                decision=Decision.graded("success"),
                receipt={"number": number},
                question=question,
            )
    with database.read() as unit:
        answers = [verdicts.newest_answer(unit, question) for question in ("q1", "q2", "q3")]
    assert answers == [{"number": 4}, {"number": 2}, None]


def test_an_answer_is_found_by_an_index(database: Database) -> None:
    if not database.is_sqlite:
        pytest.skip("an empty table is scanned by PostgreSQL, whatever its indexes")
    with database.read() as unit:
        plan = unit.execute(
            text("EXPLAIN QUERY PLAN SELECT receipt FROM verdicts WHERE question = 'q'")
        ).all()
    assert "ix_verdicts_question" in str(plan)
