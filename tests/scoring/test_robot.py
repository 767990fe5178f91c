"""What a model's recorded verdict scores, and when its scorers abstain."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from grader_service.records.judged import apply_verdict
from grader_service.records.trial import Event, TrialRecord
from grader_service.records.verdict import Verdict
from grader_service.scoring import (
    Score,
    Scorer,
    VLMScorer,
    criteria_met,
    episode_length,
    min_distance_to_goal,
    operator_scorer,
    reached_goal_state,
    success_at_end,
    vlm_scorer,
)
from tests.records.examples import odd_trial, odd_values, record_of, rollout, through_disk


def judged(outcome: Any, word: Any = None, reason: str | None = None, **said: Any) -> Any:
    """Return a saved and loaded record with such a verdict of a model written on it."""
    findings = said.pop("findings", None)
    verdict = Verdict(
        id="v",
        source=said.pop("source", "vlm"),
        outcome=outcome,
        verdict=word,
        reason=reason,
        at="2031-01-01T00:00:00Z",
        receipt={"findings": findings},
    )
    return through_disk(apply_verdict(record_of({}, **said), verdict)).record


def finding(met: str, *, required: bool = True, name: str = "a") -> dict[str, Any]:
    return {"id": name, "met": met, "required": required, "evidence": ""}


@pytest.mark.parametrize("source", ["vlm", "llm_judge", "stub"])
@pytest.mark.parametrize(("word", "value"), [("success", True), ("failure", False)])
def test_a_models_verdict_is_its_score(source: str, word: str, value: bool) -> None:
    record = judged("graded", word, source=source)
    assert vlm_scorer()(record, None) == Score(value, f"{source} verdict: {word!r}")
    assert operator_scorer()(record, None) == Score(value, f"operator verdict: {word!r}")


@pytest.mark.parametrize(
    ("outcome", "word", "reason"),
    [("abstained", "abstain", "panel_split"), ("ungraded", None, "timeout")],
)
def test_without_a_verdict_of_a_model_its_scorers_abstain(
    outcome: str, word: str | None, reason: str
) -> None:
    record = judged(outcome, word, reason, findings=[finding("yes")])
    assert vlm_scorer()(record, None) == Score(None, f"vlm {outcome}: {reason}")
    assert criteria_met()(record, None).value is None
    assert operator_scorer()(record, None).value is None
    assert operator_scorer(dialect="0.60")(record, None).value is False


def test_a_persons_verdict_is_none_of_a_model() -> None:
    record = judged("graded", "success", source="human")
    assert vlm_scorer()(record, None) == Score(None, "no model verdict recorded")
    assert criteria_met()(record, None).value is None
    assert operator_scorer()(record, None).value is True


def test_the_last_word_of_a_model_counts() -> None:
    earlier = Event("operator", 0, {"verdict": "failure", "source": "vlm"})
    later = Event("operator", 1, {"verdict": "success", "source": "prompt"})
    record = judged("graded", "success", events=[earlier])
    record.events.append(later)
    assert VLMScorer()(record, None).value is True
    assert VLMScorer()(record_of({}, events=[earlier, later]), None).value is False


@pytest.mark.parametrize(
    ("findings", "value"),
    [
        ([finding("yes")], 1.0),
        ([finding("no")], 0.0),
        ([finding("yes"), finding("no"), finding("yes"), finding("yes")], 0.75),
        ([finding("yes"), finding("no", required=False)], 1.0),
        ([finding("yes"), finding("unclear", required=False)], 1.0),
        ([finding("yes"), finding("unclear")], None),
        ([finding("yes", required=False)], None),
        ([], None),
        (None, None),
    ],
)
def test_criteria_met_is_the_fraction_of_the_required_ones(findings: Any, value: Any) -> None:
    score = criteria_met()(judged("graded", "success", findings=findings), None)
    assert repr(score.value) == repr(value)
    assert score.explanation


def test_an_unclear_criterion_is_named() -> None:
    record = judged("graded", "success", findings=[finding("unclear", name="released")])
    assert criteria_met()(record, None).explanation == "unclear: released"


def test_an_unknown_dialect_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown dialect '0\.61'"):
        operator_scorer(dialect="0.61")  # type: ignore[arg-type]


SCORERS = [
    success_at_end(),
    episode_length(),
    min_distance_to_goal(),
    reached_goal_state(),
    operator_scorer(),
    operator_scorer(dialect="0.60", name="operator of 0.60"),
    vlm_scorer(),
    criteria_met(),
]
DISTANCES = [math.nan, math.inf, -math.inf, "0.25", " 1e-3 ", "nan", np.float32(0.1), np.int8(1)]
SAID = [
    Event("operator", 0, {"source": "vlm", "verdict": "success", "criteria": [finding("yes")]}),
    Event("grading", 0, {"source": "vlm", "outcome": "abstained", "reason": "criteria_unclear"}),
]


@pytest.mark.parametrize("scorer", SCORERS, ids=lambda scorer: scorer.name)
@pytest.mark.parametrize(
    "record",
    [
        rollout(5000),
        odd_trial()[0],
        record_of(),
        *(record_of({"info": {"distance": distance}}) for distance in DISTANCES),
        record_of(*({"info": {"distance": distance}} for distance in DISTANCES)),
        *(record_of({}, events=[said], metadata=odd_values()) for said in SAID),
        record_of({}, metadata={"grading_error": "ungraded: timeout", "robot": {"arm": "left"}}),
    ],
)
def test_every_scorer_says_the_same_of_a_record_after_it_was_saved(
    scorer: Scorer, record: TrialRecord
) -> None:
    def said(of: TrialRecord) -> Any:
        try:
            return repr(scorer(of, None))
        except (TypeError, ValueError) as error:  # a distance that is no number
            return repr(error)

    assert said(through_disk(record).record) == said(record)
