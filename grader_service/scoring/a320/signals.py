"""Informative signals of a run. None of them enters the scalar."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from grader_service.scoring.a320.calls import READ_TOOLS, EffectiveCommand, Reading, SortedCalls
from grader_service.scoring.a320.formula import stored
from grader_service.scoring.a320.ground_truth import to_number
from grader_service.scoring.a320.matching import int_or_none

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from grader_service.records.trajectory import Outline

# Lists of controls and failures are not observations of the aircraft.
_OBSERVING: Final = frozenset({"read_ecam", "read_state", "snapshot"})


@dataclass(frozen=True, slots=True)
class Signals:
    """How a run went about it. `sim_time_used` is in simulated seconds."""

    efficiency: float | None
    tool_calls_used: int
    sim_time_used: float | None
    read_counts: Mapping[str, int]
    observed_before_acting: bool | None
    errored_commands: int
    off_surface_attempts: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure(outline: Outline, calls: SortedCalls, matched: int) -> Signals:
    """Return the signals of a run of which `matched` commands fulfilled a required action."""
    final = outline.final or {}
    read_counts = dict.fromkeys(READ_TOOLS, 0)
    for reading in calls.readings:
        read_counts[reading.name] += 1
    errored = sum(attempt.kind == "errored_command" for attempt in calls.not_scored)
    used = int_or_none(final.get("tool_calls_used"))
    return Signals(
        efficiency=stored(matched / len(calls.effective)) if calls.effective else None,
        tool_calls_used=len(outline.calls) if used is None else used,
        sim_time_used=_sim_time_used(outline),
        read_counts=read_counts,
        observed_before_acting=_observed_before_acting(calls.readings, calls.effective),
        errored_commands=errored,
        off_surface_attempts=len(calls.not_scored) - errored,
    )


def _sim_time_used(outline: Outline) -> float | None:
    start = _seconds((outline.setup or {}).get("sim_time"))
    if start is None:
        return None
    end = _seconds((outline.final or {}).get("sim_time"))
    if end is None and outline.calls:
        end = _seconds(outline.calls[-1].get("sim_time_after"))
    used = (start if end is None else end) - start
    return stored(used) if math.isfinite(used) else None


def _seconds(value: Any) -> float | None:
    return to_number(value) if isinstance(value, (int, float)) else None


def _observed_before_acting(
    readings: Sequence[Reading], commands: Sequence[EffectiveCommand]
) -> bool | None:
    if not commands:
        return None
    first = commands[0]
    return any(_seen_before(reading, first) for reading in readings if reading.name in _OBSERVING)


def _seen_before(reading: Reading, command: EffectiveCommand) -> bool:
    """Whether the reading's result was there when the command was given.

    Calls of one turn are issued together, so a reading of the command's own turn came too late.
    """
    read_step, command_step = int_or_none(reading.step), int_or_none(command.step)
    if read_step is None or command_step is None:
        return reading.position < command.position
    return read_step < command_step
