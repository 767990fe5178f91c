"""Signals: informative, never in the scalar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from grader_service.scoring.a320 import score_trajectory
from tests.scoring.a320.trajectories import (
    Record,
    action,
    block,
    call,
    command,
    final,
    meta,
    run,
    setup,
)

if TYPE_CHECKING:
    from grader_service.scoring.a320.signals import Signals

HEAD = meta([block(action("a", 0))])


def signals(*records: Record) -> Signals:
    found = score_trajectory([HEAD, *records]).signals
    assert found is not None
    return found


def observed(*calls: Record) -> bool | None:
    found = score_trajectory(run(HEAD, *calls)).signals
    assert found is not None
    return found.observed_before_acting


def test_efficiency_is_the_matched_part_of_the_effective_commands() -> None:
    assert signals(command("a", 0), command("x", 0), command("x", "on")).efficiency == 0.5
    assert signals(command("x", "on")).efficiency is None


@pytest.mark.parametrize(
    ("recorded", "used"), [(7, 7), (0, 0), (None, 2), (7.0, 2), (True, 2), ("7", 2)]
)
def test_tool_calls_are_as_recorded_else_counted(recorded: Any, used: int) -> None:
    end = final(True, tool_calls_used=recorded)
    assert signals(call("advance"), command("a", 0), end).tool_calls_used == used


def test_simulated_time_ends_with_final_else_with_the_last_call_else_at_once() -> None:
    advanced = call("advance", sim_time_after=105.25)
    assert signals(setup(100), advanced, final(True)).sim_time_used == 10
    assert signals(setup(100), advanced).sim_time_used == 5.25
    assert signals(setup(100), advanced, call("advance")).sim_time_used == 0
    assert signals(setup(100)).sim_time_used == 0
    assert signals(advanced, final(True)).sim_time_used is None


@pytest.mark.parametrize("odd", [None, "100", float("nan"), float("inf"), 10**400, [100]])
def test_a_time_that_is_no_finite_number_is_no_time(odd: Any) -> None:
    assert signals(setup(odd), final(True)).sim_time_used is None
    assert signals(setup(100), final(True, sim_time=odd)).sim_time_used == 0


def test_a_span_too_large_for_a_float_is_no_time() -> None:
    assert signals(setup(-1.5e308), final(True, sim_time=1.5e308)).sim_time_used is None


def test_successful_readings_are_counted_per_tool() -> None:
    calls = [call("read_ecam"), call("read_ecam", is_error=True), call("list_controls")]
    assert signals(*calls).read_counts == {
        "read_ecam": 1,
        "read_state": 0,
        "snapshot": 0,
        "list_controls": 1,
        "list_failures": 0,
    }


@pytest.mark.parametrize("tool", ["read_ecam", "read_state", "snapshot"])
def test_looking_in_an_earlier_turn_is_observing_before_acting(tool: str) -> None:
    assert observed(call(tool), command("a", 0)) is True
    assert observed(command("a", 0), call(tool)) is False


def test_looking_in_the_same_turn_comes_too_late() -> None:
    assert observed(call("read_ecam", step=1), command("a", 0, step=1)) is False


def test_without_turn_numbers_the_order_of_records_decides() -> None:
    assert observed(call("read_ecam", step=None), command("a", 0, step=1)) is True
    assert observed(command("a", 0, step=1), call("read_ecam", step="0")) is False


def test_lists_and_failed_readings_are_no_observation() -> None:
    failed = call("read_ecam", is_error=True)
    assert observed(call("list_controls"), failed, command("a", 0)) is False


def test_a_rejected_command_is_no_acting() -> None:
    assert observed(command("a", "on"), call("read_ecam"), command("a", 0)) is True
    assert observed(call("read_ecam"), command("a", "on")) is None


def test_failures_and_off_surface_attempts_are_counted_apart() -> None:
    calls = [command("a", "on"), call("clear_failure"), call("x"), call("read_ecam", is_error=True)]
    found = signals(*calls)
    assert (found.errored_commands, found.off_surface_attempts) == (1, 2)
