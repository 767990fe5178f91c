"""The scorers of robot trials: those of `inspect_robots`, and two that read a model's verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from grader_service.records.judged import GRADING, is_affirmative_verdict
from grader_service.records.trial import Event, Target, TrialRecord
from grader_service.scoring.registry import scorer
from grader_service.scoring.score import Dialect, Score, Scorer, check_dialect

# The sources of verdicts that a model gave; the others are people, sensors and consoles.
MODEL_SOURCES: Final = frozenset({"vlm", "llm_judge", "stub"})


@dataclass(frozen=True)
class RecordScorer:
    """A scorer that reads the record alone."""

    name: str
    read: Callable[[TrialRecord], Score]
    version: str = "1"

    def __call__(self, record: TrialRecord, target: Target | None) -> Score:  # noqa: ARG002  # the signature of scorers
        return self.read(record)


# --- as in inspect_robots ------------------------------------------------------------------------


@scorer()
def success_at_end(*, name: str = "success_at_end") -> Scorer:
    """Score whether the last step terminated with the reason "success"."""
    return RecordScorer(name, _success_at_end)


def _success_at_end(record: TrialRecord) -> Score:
    result = record.steps[-1].result if record.steps else None
    if result and result.terminated and result.termination_reason == "success":
        return Score(True, "reached success termination")
    return Score(False, "did not succeed")


@scorer()
def episode_length(*, name: str = "episode_length") -> Scorer:
    """Score the number of steps."""
    return RecordScorer(name, _episode_length)


def _episode_length(record: TrialRecord) -> Score:
    return Score(len(record.steps))


@scorer()
def min_distance_to_goal(*, name: str = "min_distance_to_goal") -> Scorer:
    """Score the least distance to the goal; smaller is better, inf means that none was told."""
    return RecordScorer(name, _min_distance)


def _min_distance(record: TrialRecord) -> Score:
    least = _least_distance(record)
    if least is None:
        return Score(float("inf"), "no distance signal recorded")
    return Score(least)


@scorer()
def reached_goal_state(threshold: float = 0.05, *, name: str = "reached_goal_state") -> Scorer:
    """Score whether the least distance is at most `threshold`."""
    return RecordScorer(name, partial(_reached_goal, threshold=threshold))


def _reached_goal(record: TrialRecord, threshold: float) -> Score:
    least = _least_distance(record)
    reached = least is not None and least <= threshold
    return Score(reached, f"min_distance <= {threshold}")


def _least_distance(record: TrialRecord) -> float | None:
    """Return the least `info["distance"]`, in the simulator's unit; None when there is none.

    It is the least as `min` finds it: a NaN counts only where it comes first.
    """
    infos = (step.result.info for step in record.steps)
    return min((float(info["distance"]) for info in infos if "distance" in info), default=None)


@scorer("operator")
def operator_scorer(*, name: str = "operator", dialect: Dialect = "newest") -> Scorer:
    """Score the recorded judgement, whoever gave it.

    Without one the score is False; in the newest dialect it abstains when the record tells that
    grading failed or abstained (`metadata["grading_error"]`).
    """
    check_dialect(dialect)
    return RecordScorer(name, partial(_judgement, dialect=dialect))


def _judgement(record: TrialRecord, dialect: Dialect) -> Score:
    judgement = record.operator_judgement
    if judgement is not None:
        return Score(is_affirmative_verdict(judgement), f"operator verdict: {judgement!r}")
    error = record.metadata.get("grading_error")
    if error and dialect == "newest":
        return Score(None, f"ungraded: grader failed: {error}")
    return Score(False, "no operator judgement recorded")


# --- of a model's verdict ------------------------------------------------------------------------


class VLMScorer(RecordScorer):
    """Scores the recorded verdict of a model; abstains where there is none."""

    def __init__(self, name: str = "vlm") -> None:
        super().__init__(name, _model_verdict)


@scorer("vlm")
def vlm_scorer(*, name: str = "vlm") -> Scorer:
    """Score the recorded verdict of a model; abstain where there is none."""
    return VLMScorer(name)


def _model_verdict(record: TrialRecord) -> Score:
    event = _model_event(record)
    if event is None:
        return Score(None, "no model verdict recorded")
    said = event.data
    if event.kind == GRADING:
        return Score(None, f"{said['source']} {said['outcome']}: {said['reason']}")
    verdict = said["verdict"]
    return Score(is_affirmative_verdict(verdict), f"{said['source']} verdict: {verdict!r}")


@scorer()
def criteria_met(*, name: str = "criteria_met") -> Scorer:
    """Score the fraction of required criteria that a model's recorded verdict found met.

    Abstains without such a verdict, and where a required criterion is unclear: what can't be seen
    is not failed.
    """
    return RecordScorer(name, _criteria_met)


def _criteria_met(record: TrialRecord) -> Score:
    event = _model_event(record)
    graded = event is not None and event.kind != GRADING
    criteria = event.data.get("criteria", ()) if event and graded else ()
    required = [criterion for criterion in criteria if criterion["required"]]
    if not required:
        return Score(None, "no verdict on required criteria recorded")
    unclear = [criterion["id"] for criterion in required if criterion["met"] == "unclear"]
    if unclear:
        return Score(None, f"unclear: {', '.join(unclear)}")
    met = sum(criterion["met"] == "yes" for criterion in required)
    return Score(met / len(required), f"{met} of {len(required)} required criteria met")


def _model_event(record: TrialRecord) -> Event | None:
    """Return the last event in which a model gave its verdict, or gave none."""
    for event in reversed(record.events):
        if event.kind in ("operator", GRADING) and event.data.get("source") in MODEL_SOURCES:
            return event
    return None
