"""score_trajectory: the records of one run in, its ScoreCard out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grader_service.records.trajectory import Outline, outline
from grader_service.scoring.a320 import formula
from grader_service.scoring.a320.bundle import collect_evidence
from grader_service.scoring.a320.calls import sort_calls
from grader_service.scoring.a320.card import ScoreCard, Status
from grader_service.scoring.a320.ground_truth import read_ground_truth
from grader_service.scoring.a320.matching import classify, count_order, match
from grader_service.scoring.a320.signals import measure

UNKNOWN = "unknown"


def score_trajectory(records: Sequence[Mapping[str, Any]]) -> ScoreCard:
    """Return the ScoreCard of the records of one run, which are not changed.

    Raises TrajectoryError where the records are no single run or its scenario can't be scored.
    """
    run = outline(records)
    reason = _reason(run)
    judgement = _judgement(run.judgement)
    if run.meta is None:
        return ScoreCard(None, UNKNOWN, UNKNOWN, "invalid", reason, judgement=judgement)

    scenario = _mapping(run.meta.get("scenario"))
    truth = read_ground_truth(scenario)
    calls = sort_calls(run.calls, run.meta.get("tool_surface"))
    matches = match(truth.required, calls.effective)
    commands = classify(truth, calls.effective, matches)

    matched = len(matches) - matches.count(None)
    coverage = matched / len(matches)
    held = count_order(truth.required, matches)
    order = held.satisfied / held.applicable if held.applicable else None
    dangerous = sum(command.severity == "dangerous" for command in commands)
    anti_procedure = sum(command.severity == "anti_procedure" for command in commands)
    extraneous = sum(command.kind == "extraneous" for command in commands)
    end_state, all_passed = _end_state(run)
    scalar = None
    if end_state is not None:
        scalar = (
            formula.safety(dangerous, anti_procedure)
            * formula.tidy(extraneous)
            * formula.base(end_state, coverage, order)
        )
    return ScoreCard(
        run_id=_text(run.meta.get("run_id")),
        scenario_id=_text(scenario.get("id")) or UNKNOWN,
        model=_model(run.meta),
        status=_status(run, reason, end_state),
        reason=reason,
        coverage=formula.stored(coverage),
        order=_stored(order),
        end_state=_stored(end_state),
        all_passed=all_passed,
        safety_dangerous=dangerous,
        safety_anti_procedure=anti_procedure,
        extraneous=extraneous,
        scalar=_stored(scalar),
        matches=tuple(matches),
        commands=tuple(commands),
        signals=measure(run, calls, matched),
        warnings=truth.warnings,
        judgement=judgement,
        evidence=collect_evidence(run, scenario, calls.not_scored),
    )


def judge_bundle(records: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return what an LLM judge may see of a run, or None where set-up crashed."""
    return score_trajectory(records).judge_bundle()


def _end_state(run: Outline) -> tuple[float | None, bool | None]:
    """Return the fraction of recorded checks that passed and whether the harness said all did.

    One pool, not a mean of two means; the checks are not evaluated again. None where nothing was
    judged.
    """
    judged = (run.final or {}).get("success_eval")
    if run.harness_error is not None or not isinstance(judged, Mapping):
        return None, None
    passed = [
        isinstance(check, Mapping) and check.get(mark) is True
        for key, mark in (("final_state", "passed"), ("ecam_clear_of", "clear"))
        for check in _list(judged.get(key))
    ]
    if not passed:
        return None, None
    return sum(passed) / len(passed), judged.get("all_passed") is True


def _reason(run: Outline) -> str | None:
    if run.harness_error is not None:
        return "harness_error"
    recorded = _text((run.final or {}).get("reason"))
    if recorded is None and run.provider_error is not None:
        return "provider_error"
    return recorded


def _status(run: Outline, reason: str | None, end_state: float | None) -> Status:
    if run.harness_error is not None or reason == "invalid_scenario":
        return "invalid"
    if run.provider_error is not None or reason == "provider_error":
        return "provider_error"
    return "invalid" if end_state is None else "scored"


def _model(meta: Mapping[str, Any]) -> str:
    adapter = _mapping(meta.get("adapter"))
    return _text(adapter.get("model")) or _text(adapter.get("provider")) or UNKNOWN


def _judgement(record: Mapping[str, Any] | None) -> dict[str, str | None] | None:
    if record is None:
        return None
    return {key: _text(record.get(key)) for key in ("outcome", "verdict", "reason", "source")}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _stored(value: float | None) -> float | None:
    return None if value is None else formula.stored(value)
