"""Tool calls, sorted into commands that took effect, readings, and attempts that never score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from grader_service.scoring.a320.ground_truth import Pair, to_pair

SET_CONTROL: Final = "set_control"
READ_TOOLS: Final = ("read_ecam", "read_state", "snapshot", "list_controls", "list_failures")
BENCHMARK_SURFACE: Final = frozenset({*READ_TOOLS, SET_CONTROL, "advance", "report_done"})


class EffectiveCommand(NamedTuple):
    """A `set_control` call that the server carried out. `position` counts all tool calls."""

    position: int
    step: Any
    pair: Pair


class Reading(NamedTuple):
    """A successful call of one of the read tools."""

    position: int
    step: Any
    name: str


class NotScored(NamedTuple):
    """A call outside the tool surface, or a `set_control` that the server didn't carry out."""

    kind: Literal["off_surface_attempt", "errored_command"]
    step: Any
    name: Any
    args: Any


@dataclass(frozen=True, slots=True)
class SortedCalls:
    """The calls of a run that say something, each list in the order of the file."""

    effective: list[EffectiveCommand]
    readings: list[Reading]
    not_scored: list[NotScored]


def sort_calls(calls: Sequence[Mapping[str, Any]], tool_surface: Any) -> SortedCalls:
    """Sort tool calls. `tool_surface` is as recorded; no list means the benchmark's own tools.

    Neither physics nor results are consulted: a command that changes nothing counts.
    """
    surface = BENCHMARK_SURFACE
    if isinstance(tool_surface, list):
        surface = frozenset(tool for tool in tool_surface if isinstance(tool, str))
    found = SortedCalls([], [], [])
    for position, call in enumerate(calls):
        name, step = call.get("name"), call.get("step")
        if not isinstance(name, str) or name not in surface:
            attempt = NotScored("off_surface_attempt", step, name, call.get("args"))
            found.not_scored.append(attempt)
        elif name == SET_CONTROL:
            pair = _effective_pair(call)
            if pair is None:
                errored = NotScored("errored_command", step, name, call.get("args"))
                found.not_scored.append(errored)
            else:
                found.effective.append(EffectiveCommand(position, step, pair))
        elif name in READ_TOOLS and call.get("is_error") is False:
            found.readings.append(Reading(position, step, name))
    return found


def _effective_pair(call: Mapping[str, Any]) -> Pair | None:
    args = call.get("args")
    if call.get("is_error") is not False or not isinstance(args, Mapping):
        return None
    return to_pair(args)
