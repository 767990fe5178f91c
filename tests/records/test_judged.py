"""A verdict lands where scorers look for it, and the record that came in stays as it was."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from inspect_robots.transcript import judgement_source

from grader_service.records.judged import apply_verdict, definitive_verdict
from grader_service.records.trial import Event, TrialRecord
from grader_service.records.verdict import Verdict
from tests.records.examples import assert_same, record_of, rollout, through_disk

FINDINGS = [
    {"id": "in_goal", "met": "yes", "required": True, "evidence": "inside"},
    {"id": "intact", "met": "unclear", "required": False, "evidence": "hidden"},
]
CRITERIA = [
    {"id": "in_goal", "met": "yes", "required": True},
    {"id": "intact", "met": "unclear", "required": False},
]


def verdict(outcome: Any, word: Any = None, reason: str | None = None, **said: Any) -> Verdict:
    known = {"id": "v", "source": "vlm", "at": "2031-01-01T00:00:00Z"}
    return Verdict(outcome=outcome, verdict=word, reason=reason, **(known | said))


@pytest.mark.parametrize("word", ["success", "failure"])
def test_a_graded_verdict_is_written_as_inspect_robots_does(word: str) -> None:
    record = record_of({}, {})
    judged = apply_verdict(record, verdict("graded", word, note="it lies inside"))
    assert judged.operator_judgement == word
    assert judged.operator_note == "it lies inside"
    as_upstream: Any = judged
    assert judgement_source(as_upstream) == "vlm"
    assert judged.events == [
        Event("operator", 2, {"verdict": word, "source": "vlm", "note": "it lies inside"})
    ]
    assert "grading_error" not in judged.metadata


@pytest.mark.parametrize(
    ("outcome", "word", "reason"),
    [("abstained", "abstain", "criteria_unclear"), ("ungraded", None, "timeout")],
)
def test_no_verdict_leaves_no_judgement_and_says_why(
    outcome: str, word: str | None, reason: str
) -> None:
    judged = apply_verdict(record_of({}), verdict(outcome, word, reason))
    assert judged.operator_judgement is None
    assert judged.metadata == {"grading_error": f"{outcome}: {reason}"}
    assert judged.events == [
        Event("grading", 1, {"outcome": outcome, "reason": reason, "source": "vlm"})
    ]


@pytest.mark.parametrize("outcome", ["graded", "abstained"])
def test_what_was_found_of_the_criteria_is_in_the_event(outcome: str) -> None:
    given = verdict(outcome, "success", "criteria_unclear", receipt={"findings": FINDINGS})
    assert apply_verdict(record_of({}), given).events[-1].data["criteria"] == CRITERIA


def test_a_long_note_is_cut() -> None:
    judged = apply_verdict(record_of({}), verdict("graded", "success", note="x" * 5000))
    assert judged.operator_note == judged.events[-1].data["note"] == "x" * 2000


def test_an_operators_note_outlasts_a_verdict_without_one() -> None:
    judged = apply_verdict(record_of({}, operator_note="slipped"), verdict("graded", "failure"))
    assert judged.operator_note == "slipped"


def test_a_verdict_after_an_outage_takes_its_error_away() -> None:
    record = record_of({}, metadata={"grading_error": "ungraded: timeout", "run": "r1"})
    assert apply_verdict(record, verdict("graded", "success")).metadata == {"run": "r1"}


@pytest.mark.parametrize("source", ["embodiment", "console", "prompt"])
def test_a_verdict_that_came_with_the_record_fills_only_an_empty_judgement(source: str) -> None:
    given = verdict("graded", "success", source=source)
    filled = apply_verdict(record_of({}), given)
    assert filled.operator_judgement == "success"
    assert filled.events == [
        Event("operator", 1, {"verdict": "success", "source": source, "note": None})
    ]
    brought = record_of({}, operator_judgement=" Y ")
    assert_same(apply_verdict(brought, given), brought)


def test_no_verdict_at_all_changes_nothing() -> None:
    record = rollout(3)
    assert_same(apply_verdict(record, None), record)


@pytest.mark.parametrize("outcome", ["graded", "ungraded"])
def test_the_record_that_came_in_is_not_touched(outcome: str) -> None:
    record = record_of({"info": {"distance": 1.0}}, metadata={"a": 1})
    record.energy_j = 3.0  # type: ignore[attr-defined]
    before = copy.deepcopy(record)
    judged = apply_verdict(record, verdict(outcome, "failure", "timeout", note="n"))
    assert_same(record, before)
    assert judged.steps is record.steps
    assert vars(judged)["energy_j"] == 3.0


def test_a_loaded_record_is_judged_without_its_steps_being_read() -> None:
    saved = through_disk(rollout(300))
    judged = apply_verdict(saved.record, verdict("graded", "success"))
    assert judged.events[-1].t == 300
    assert len(judged.events) == len(saved.record.events) + 1


def operator(source: Any) -> Event:
    return Event("operator", 0, {"verdict": "y", "source": source})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"terminated": True, "termination_reason": "success"}, ("embodiment", "success")),
        ({"terminated": True, "termination_reason": "failure"}, ("embodiment", "failure")),
        ({"terminated": True, "termination_reason": "operator_end"}, None),
        ({"terminated": True, "termination_reason": "Success"}, None),
        ({"truncated": True, "termination_reason": "success"}, None),
        ({"operator_judgement": " YES\n"}, ("console", "success")),
        ({"operator_judgement": "partial"}, ("console", "failure")),
        ({"operator_judgement": ""}, ("console", "failure")),
        ({"operator_judgement": True}, None),
        ({"operator_judgement": "y", "events": [operator("prompt")]}, ("prompt", "success")),
        ({"operator_judgement": "y", "events": [operator(None)]}, ("console", "success")),
        (
            {"operator_judgement": "n", "events": [operator("console"), operator("vlm")]},
            ("vlm", "failure"),
        ),
        (
            {"operator_judgement": "n", "terminated": True, "termination_reason": "success"},
            ("console", "failure"),
        ),
    ],
)
def test_a_record_tells_which_verdict_it_brings(fields: Any, expected: Any) -> None:
    assert definitive_verdict(TrialRecord("a", 0, None, **fields)) == expected
    assert definitive_verdict(through_disk(TrialRecord("a", 0, None, **fields)).record) == expected
