"""Which tool calls are commands, readings, failures, or tools that were not offered."""

from __future__ import annotations

from typing import Any

import pytest

from grader_service.scoring.a320.calls import sort_calls
from tests.scoring.a320.trajectories import SURFACE, call, command


def kinds(calls: list[dict[str, Any]], surface: Any = SURFACE) -> tuple[int, int, int, int]:
    """Return how many calls are effective, readings, errored, off-surface."""
    found = sort_calls(calls, surface)
    errored = sum(attempt.kind == "errored_command" for attempt in found.not_scored)
    return (
        len(found.effective),
        len(found.readings),
        errored,
        len(found.not_scored) - errored,
    )


def test_a_command_that_the_server_took_is_effective_with_extra_arguments_too() -> None:
    taken = call("set_control", {"control": "a", "value": "1", "why": "test"})
    assert sort_calls([taken], SURFACE).effective[0].pair == ("a", 1.0)


@pytest.mark.parametrize(
    "failed",
    [
        command("a", 0, is_error=True),
        command("a", 0, is_error=None),
        command("a", 0, is_error=0),
        {"type": "tool_call", "name": "set_control", "args": {"control": "a", "value": 0}},
        command("a", "on"),
        command("a", None),
        command("a", 10**400),
        command("", 0),
        command(7, 0),
        call("set_control", {"value": 0}),
        call("set_control", {"control": "a"}),
        {"type": "tool_call", "name": "set_control", "args": ["a", 0], "is_error": False},
        {"type": "tool_call", "name": "set_control", "is_error": False},
    ],
)
def test_a_set_control_that_did_not_take_effect_is_errored(failed: dict[str, Any]) -> None:
    assert kinds([failed]) == (0, 0, 1, 0)


@pytest.mark.parametrize("name", ["clear_failure", "Set_control", "set_control ", "", None, 7, []])
@pytest.mark.parametrize("is_error", [True, False])
def test_a_tool_that_was_not_offered_is_off_surface_whatever_it_answered(
    name: Any, is_error: bool
) -> None:
    assert kinds([call(name, is_error=is_error)]) == (0, 0, 0, 1)


def test_set_control_itself_may_be_off_surface() -> None:
    assert kinds([command("a", 0), command("a", 0, is_error=True)], ["read_ecam"]) == (0, 0, 0, 2)


def test_an_empty_surface_is_taken_literally() -> None:
    assert kinds([command("a", 0), call("read_ecam")], []) == (0, 0, 0, 2)


@pytest.mark.parametrize("surface", [None, "set_control", {"set_control": True}, 7])
def test_without_a_list_the_surface_is_the_benchmarks(surface: Any) -> None:
    calls = [command("a", 0), *(call(name) for name in SURFACE), call("clear_failure")]
    assert kinds(calls, surface) == (1, 5, 1, 1)


def test_a_surface_with_entries_that_are_no_names_still_offers_the_rest() -> None:
    assert kinds([command("a", 0), call("advance")], [["advance"], None, "set_control"]) == (
        1,
        0,
        0,
        1,
    )


def test_failed_readings_and_other_tools_count_nowhere() -> None:
    assert kinds([call("read_ecam", is_error=True), call("advance"), call("report_done")]) == (
        0,
        0,
        0,
        0,
    )
