"""judge_bundle: what an LLM judge may see of a run. It can't tell who ran.

What the agent wrote (its report, the names and arguments of its calls) is untrusted data: it stays
in those fields, unchanged, and whoever builds a prompt must fence it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grader_service.records.canonical import nonfinite_name

if TYPE_CHECKING:
    from grader_service.records.trajectory import Outline
    from grader_service.scoring.a320.calls import NotScored


@dataclass(frozen=True, slots=True)
class Evidence:
    """The parts of a trajectory that a bundle is made of, not copied; no snapshot among them."""

    scenario: Mapping[str, Any]
    not_scored: Sequence[NotScored]
    done_payload: Any
    initial_ecam: Any
    final_ecam: Any
    success_eval: Any


def collect_evidence(
    outline: Outline, scenario: Mapping[str, Any], not_scored: Sequence[NotScored]
) -> Evidence:
    """Pick what a bundle needs, so that a card doesn't hold on to a whole trajectory."""
    final = outline.final or {}
    gate = (outline.setup or {}).get("validity_gate")
    return Evidence(
        scenario=scenario,
        not_scored=not_scored,
        done_payload=final.get("done_payload"),
        initial_ecam=gate.get("ecam") if isinstance(gate, Mapping) else None,
        final_ecam=final.get("ecam"),
        success_eval=final.get("success_eval"),
    )


def build_bundle(
    evidence: Evidence,
    commands: list[dict[str, Any]],
    end_reason: str | None,
    vector: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the bundle. It has no scalar: a judge isn't to be anchored."""
    scenario, report = evidence.scenario, evidence.done_payload
    bundle = {
        "scenario": {
            **{key: scenario.get(key) for key in ("id", "title", "system", "task_prompt")},
            "expected_ecam": scenario.get("expected_ecam"),
            "injected_failures": _failure_ids(scenario),
        },
        "ground_truth": scenario.get("ground_truth"),
        "commands": commands,
        "not_scored": [attempt._asdict() for attempt in evidence.not_scored],
        "agent_report": {key: report.get(key) for key in ("diagnosis", "actions_summary")}
        if isinstance(report, Mapping)
        else None,
        "end_reason": end_reason,
        "initial_ecam": evidence.initial_ecam,
        "final_ecam": evidence.final_ecam,
        "success_checks": evidence.success_eval,
        "vector": vector,
    }
    copy: dict[str, Any] = _copied(bundle)
    return copy


def _failure_ids(scenario: Mapping[str, Any]) -> list[Any]:
    failures = scenario.get("failures")
    if not isinstance(failures, list):
        return []
    return [failure.get("id") for failure in failures if isinstance(failure, Mapping)]


def _copied(value: Any) -> Any:
    """Copy a JSON value, with non-finite floats as the strings that canonical JSON gives them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else nonfinite_name(value)
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value
