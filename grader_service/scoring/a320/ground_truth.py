"""What a scenario asks for: required, optional and forbidden actions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from grader_service.errors import TrajectoryError

Pair = tuple[str, float]
Severity = Literal["anti_procedure", "dangerous"]

_SEVERITIES: Final = ("anti_procedure", "dangerous")  # the worse one last


@dataclass(frozen=True, slots=True)
class Required:
    """One required action: its pair, and the block that decides what it must come before."""

    pair: Pair
    block: int
    block_name: str
    ordered: bool


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """The actions of a scenario; `required` is the procedure flattened block by block."""

    required: tuple[Required, ...]
    optional: frozenset[Pair]
    forbidden: Mapping[Pair, Severity]
    warnings: tuple[str, ...]


def read_ground_truth(scenario: Mapping[str, Any]) -> GroundTruth:
    """Read `scenario.ground_truth`.

    Raises TrajectoryError where the procedure is missing or requires nothing, and for an action
    without control, number or known severity: penalties are never guessed.
    """
    truth = scenario.get("ground_truth")
    if not isinstance(truth, Mapping) or not isinstance(truth.get("procedure"), list):
        raise _unusable("has no ground_truth.procedure")
    required = tuple(
        Required(_pair(action), number, str(block.get("block")), block.get("ordered") is True)
        for number, block in enumerate(_items(truth, "procedure"))
        for action in _items(block, "actions")
    )
    if not required:
        raise _unusable("requires no action")
    optional = frozenset(_pair(action) for action in _items(truth, "optional_actions"))
    forbidden: dict[Pair, Severity] = {}
    for action in _items(truth, "forbidden_actions"):
        pair, severity = _pair(action), _severity(action)
        forbidden[pair] = max(severity, forbidden.get(pair, severity), key=_SEVERITIES.index)
    warnings = tuple(
        f"{control} = {value:.15g} is both optional and forbidden: taken as optional"
        for control, value in forbidden
        if (control, value) in optional
    )
    return GroundTruth(required, optional, forbidden, warnings)


def to_number(value: Any) -> float | None:
    """Return a control value as the simulator's server converts it, or None where it refuses.

    Booleans are 0 and 1, strings go through `float()`; NaN, infinities and integers too large for
    a float are no control values.
    """
    if not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def to_pair(action: Mapping[str, Any]) -> Pair | None:
    """Return (control, value) of an action or of a command's arguments, or None if it has none."""
    control, value = action.get("control"), to_number(action.get("value"))
    if not isinstance(control, str) or not control or value is None:
        return None
    return control, value


def _items(parent: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    items = parent.get(key)
    if items is None:
        return []
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        raise _unusable(f"has a {key} that is no list of objects")
    return items


def _pair(action: Mapping[str, Any]) -> Pair:
    pair = to_pair(action)
    if pair is None:
        raise _unusable("has an action without a control name and a finite value")
    return pair


def _severity(action: Mapping[str, Any]) -> Severity:
    severity = action.get("severity")
    if severity not in _SEVERITIES:
        raise _unusable(f"forbids an action with severity {severity!r:.40}")
    return cast("Severity", severity)


def _unusable(what: str) -> TrajectoryError:
    return TrajectoryError(
        f"the scenario in the meta record {what}",
        fix="correct the scenario file and record the run again",
    )
