"""What findings come to is decided by code, the same way for every judge."""

from __future__ import annotations

from itertools import product

import pytest

from grader_service.judging.decision import decide
from grader_service.judging.rubric import rubric_from_json
from grader_service.records.verdict import Finding, Met

WORDS: tuple[Met, ...] = ("yes", "no", "unclear")
ANSWERS = list(product(WORDS, repeat=3))


def _decide(answers: tuple[Met, ...], *, at_least: int | None = None, optional: int = 0) -> str:
    criteria = [
        {"id": f"c{i}", "text": "t", "required": i >= optional} for i in range(len(answers))
    ]
    decision = "all_required" if at_least is None else {"at_least": at_least}
    rubric = rubric_from_json({"criteria": criteria, "decision": decision})
    return decide(rubric, [Finding(f"c{i}", "", met) for i, met in enumerate(answers)])


@pytest.mark.parametrize("answers", ANSWERS)
def test_all_required_fails_on_any_no_succeeds_on_all_yes_and_abstains_otherwise(
    answers: tuple[Met, ...],
) -> None:
    if "no" in answers:
        expected = "failure"
    elif set(answers) == {"yes"}:
        expected = "success"
    else:
        expected = "abstain"
    assert _decide(answers) == expected


@pytest.mark.parametrize("answers", ANSWERS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_at_least_abstains_exactly_while_the_unclear_ones_could_go_either_way(
    answers: tuple[Met, ...], n: int
) -> None:
    could_be = {
        filled.count("yes") >= n
        for filled in product(*(("yes", "no") if met == "unclear" else (met,) for met in answers))
    }
    expected = "abstain" if len(could_be) == 2 else ("success" if could_be.pop() else "failure")
    assert _decide(answers, at_least=n) == expected


@pytest.mark.parametrize("optional", WORDS)
def test_an_optional_criterion_never_decides(optional: Met) -> None:
    assert _decide((optional, "yes"), optional=1) == "success"
    assert _decide((optional, "no"), optional=1) == "failure"
    assert _decide((optional, "unclear"), optional=1) == "abstain"


def test_a_criterion_that_nobody_looked_at_is_unclear() -> None:
    rubric = rubric_from_json({"criteria": [{"id": "a", "text": "t"}, {"id": "b", "text": "t"}]})
    assert decide(rubric, [Finding("a", "", "yes")]) == "abstain"
    assert decide(rubric, []) == "abstain"
