"""Which answers may be taken over: those that lead to the same verdict today."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from grader_service.errors import JudgeError
from grader_service.grading.reuse import is_an_answer, question_of, take_over
from grader_service.judging.judge import Judged
from grader_service.judging.prompt import Marks, Prompt
from grader_service.judging.receipt import Asked, Case, build_receipt
from grader_service.judging.reply import parse_reply
from grader_service.judging.rubric import library_rubric
from grader_service.providers.base import Answer
from grader_service.records.canonical import digest_of
from grader_service.records.verdict import Decision
from tests.judging.replies import chat

FIRST = Case("trial-1", "d" * 64, 0, library_rubric("robot/place-in-goal"))
SECOND = Case("trial-2", "d" * 64, 3, FIRST.rubric, previous_receipt="e" * 64)
MARKS = Marks(nonce="0123456789ab", token="t-0123456789abcdef")


def judged(text: str = "GRADE: success", **changes: Any) -> Judged:
    """Return a verdict on the first case whose reply has this text."""
    answer = Answer("openai.chat", chat(text), "text", "m", "req-1", usage={"input_tokens": 9})
    decision = parse_reply(answer.wire, answer.body, rubric=FIRST.rubric, token=MARKS.token)
    receipt = build_receipt(
        FIRST,
        decision,
        judge={"name": "j"},
        prompt=Prompt("", (), MARKS),
        asked=[Asked(answer, decision)],
    )
    return Judged(decision, receipt | changes)


@pytest.mark.parametrize("text", ["GRADE: success", "GRADE: failure", "GRADE: abstain"])
def test_an_answer_is_taken_over_onto_the_other_case(text: str) -> None:
    earlier = judged(text)
    taken = take_over(SECOND, earlier.receipt)
    assert taken is not None
    assert taken.decision == earlier.decision
    own = {
        "trial": "trial-2",
        "round": 3,
        "previous_receipt": "e" * 64,
        "reused_from": digest_of(earlier.receipt),
        "usage": None,
        "cost": None,
    }
    assert taken.receipt == earlier.receipt | own


@pytest.mark.parametrize(
    "changes",
    [
        {"outcome": {"outcome": "graded", "verdict": "failure", "reason": None}},
        {"rationale": "as an older parser read it"},
        {"reply": None},
        {"reply": {"wire": "fax", "body": {}}},
        {"reply": {"wire": "openai.chat", "body": chat("hm")}},
        {"schema": "receipt/0"},
        {"rubric": {"digest": "f" * 64, "text": {"id": "a rubric of another time"}}},
    ],
)
def test_what_would_be_decided_otherwise_today_is_asked_for_anew(changes: dict[str, Any]) -> None:
    assert take_over(SECOND, judged(**changes).receipt) is None


def test_only_a_verdict_of_its_own_reply_is_an_answer() -> None:
    assert is_an_answer(judged())
    assert not is_an_answer(judged("nothing usable"))
    assert not is_an_answer(judged(reused_from="a" * 64))
    outage = Decision.ungraded("provider_unavailable")
    error = JudgeError("down", reason="provider_unavailable")
    assert not is_an_answer(
        Judged(outage, build_receipt(FIRST, outage, judge={"name": "j"}, error=error))
    )
    nothing = Decision.abstained("nothing_to_judge")
    assert not is_an_answer(
        Judged(nothing, build_receipt(FIRST, nothing, judge={"name": "j"}, note="empty"))
    )


def test_a_question_is_the_tenant_the_record_the_rubric_and_the_judge() -> None:
    parts = {"tenant": "t", "record_digest": "a", "rubric_digest": "b", "judge_digest": "c"}
    questions = {question_of(**parts)} | {question_of(**parts | {key: "x"}) for key in parts}
    assert len(questions) == 5
    assert question_of(**parts) == question_of(**parts)


def test_another_round_of_the_case_takes_it_over_as_well() -> None:
    earlier = judged()
    taken = take_over(replace(FIRST, round=1), earlier.receipt)
    assert taken is not None
    assert taken.receipt["trial"] == "trial-1"
