"""The scorers whose results follow from the verdict: those that a harvest runs again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from grader_service.errors import UsageError
from grader_service.records.judged import is_affirmative_verdict
from grader_service.records.trial import TrialRecord
from grader_service.scoring import (
    Dialect,
    Score,
    Scorer,
    criteria_met,
    operator_scorer,
    resolve_scorer,
    vlm_scorer,
)
from grader_service.scoring.robot import RecordScorer


def task_success() -> Scorer:
    """Score as kitchenbench does: a termination or a judgement that reads as success."""
    return RecordScorer("task_success", _task_success)


def _task_success(record: TrialRecord) -> Score:
    ended = record.termination_reason == "success"
    return Score(ended or is_affirmative_verdict(record.operator_judgement))


# By the name that stands in logs. Each needs no more of a record than its judgement, its events
# and why it ended.
JUDGEMENT_SCORERS: Final[Mapping[str, Callable[[Dialect], Scorer]]] = {
    "operator": lambda dialect: operator_scorer(dialect=dialect),
    "task_success": lambda _: task_success(),
    "vlm": lambda _: vlm_scorer(),
    "criteria_met": lambda _: criteria_met(),
}
# Scorers of the harness that never look at a judgement.
_INDEPENDENT: Final = frozenset(
    {"success_at_end", "episode_length", "min_distance_to_goal", "reached_goal_state"}
)


def of_verdict(names: set[str], dialect: Dialect) -> dict[str, Scorer]:
    """Return those scorers of a log that its verdicts decide, sorted by name."""
    known = sorted(names & JUDGEMENT_SCORERS.keys())
    return {name: JUDGEMENT_SCORERS[name](dialect) for name in known}


def left_alone(names: set[str]) -> list[str]:
    """Return those scorers of a log that may read verdicts for all that is known here, sorted."""
    return sorted(names - JUDGEMENT_SCORERS.keys() - _INDEPENDENT)


def of_record(
    wanted: Iterable[str], names: set[str], task: Any | None, dialect: Dialect
) -> dict[str, Scorer]:
    """Return the scorers that are to run on whole records again, by the names in a log.

    A scorer of the registered task comes with that task's parameters; otherwise it is ours or the
    harness' of that name. Raises UsageError for one that there is not, or not in the log.
    """
    found = {}
    for name in sorted(set(wanted)):
        if name not in names:
            raise UsageError(
                f"the log has no scores by {name!r}", fix=f"name one of {', '.join(sorted(names))}"
            )
        own = [scorer for scorer in getattr(task, "scorers", ()) if scorer.name == name]
        if own:
            found[name] = own[0]
        elif name in JUDGEMENT_SCORERS:
            found[name] = JUDGEMENT_SCORERS[name](dialect)
        else:
            found[name] = _registered(name)
    return found


def _registered(name: str) -> Scorer:
    try:
        return resolve_scorer(name)
    except UsageError as ours:
        try:
            from inspect_robots.registry import resolve

            scorer: Scorer = resolve("scorer", name)
        except Exception as error:  # whatever another package's factory raises
            raise UsageError(f"{ours.message}, nor has inspect-robots one", fix=ours.fix) from error
        return scorer
