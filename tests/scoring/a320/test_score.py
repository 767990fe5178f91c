"""End state, status, reason and names on a card."""

from __future__ import annotations

from typing import Any

import pytest

from grader_service.errors import TrajectoryError
from grader_service.scoring.a320 import judge_bundle, score_trajectory
from tests.scoring.a320.trajectories import (
    Record,
    action,
    block,
    command,
    final,
    meta,
    run,
    setup,
)

HEAD = meta([block(action("a", 0))])
HARNESS_ERROR = {"type": "harness_error", "stage": "run", "error": "E"}
PROVIDER_ERROR = {"type": "provider_error", "step": 1, "error": "E('lab/small-1')"}
INVALID = {"type": "final", "reason": "invalid_scenario", "success_eval": None}


def judged(success_eval: Any) -> tuple[float | None, bool | None]:
    card = score_trajectory([HEAD, {"type": "final", "success_eval": success_eval}])
    return card.end_state, card.all_passed


def test_the_end_state_is_one_pool_of_checks() -> None:
    checks = {
        "final_state": [{"passed": True}, {"passed": False}, {"passed": True}],
        "ecam_clear_of": [{"clear": False}],
        "all_passed": False,
    }
    assert judged(checks) == (0.5, False)


def test_only_true_is_passed_and_an_entry_with_an_error_failed() -> None:
    checks = [
        {"passed": 1},
        {"passed": "true"},
        {"error": "E", "passed": False},
        {},
        "passed",
        None,
    ]
    assert judged({"final_state": checks, "all_passed": 1}) == (0.0, False)


def test_all_passed_is_as_recorded_and_not_derived() -> None:
    assert judged({"final_state": [{"passed": True}]}) == (1.0, False)


@pytest.mark.parametrize(
    "success_eval",
    [None, [], "yes", {}, {"final_state": None}, {"final_state": [], "all_passed": True}],
)
def test_without_checks_there_is_no_end_state_and_no_scalar(success_eval: Any) -> None:
    assert judged(success_eval) == (None, None)


def test_a_dangerous_run_without_end_state_has_no_scalar_but_shows_the_count() -> None:
    head = meta([block(action("a", 0))], forbidden=[action("b", 0, severity="dangerous")])
    card = score_trajectory([head, setup(), command("b", 0)])
    assert card.scalar is None
    assert card.safety_dangerous == 1


@pytest.mark.parametrize(
    ("records", "status", "reason"),
    [
        ([final(True)], "scored", "agent_done"),
        ([final(True, reason="budget_tool_calls")], "scored", "budget_tool_calls"),
        ([final(True, reason="end_turn_without_done")], "scored", "end_turn_without_done"),
        (
            [PROVIDER_ERROR, final(True, reason="provider_error")],
            "provider_error",
            "provider_error",
        ),
        ([final(True, reason="provider_error")], "provider_error", "provider_error"),
        ([PROVIDER_ERROR, final(True)], "provider_error", "agent_done"),
        ([PROVIDER_ERROR], "provider_error", "provider_error"),
        ([PROVIDER_ERROR, INVALID], "invalid", "invalid_scenario"),
        ([INVALID], "invalid", "invalid_scenario"),
        ([HARNESS_ERROR, final(True)], "invalid", "harness_error"),
        ([HARNESS_ERROR, PROVIDER_ERROR], "invalid", "harness_error"),
        ([], "invalid", None),
        ([final()], "invalid", "agent_done"),
        ([{"type": "final", "reason": 7}], "invalid", None),
    ],
)
def test_status_and_reason_say_how_a_run_ended(
    records: list[Record], status: str, reason: str | None
) -> None:
    card = score_trajectory([HEAD, *records])
    assert (card.status, card.reason) == (status, reason)


def test_a_run_cut_short_by_its_provider_keeps_its_scalar() -> None:
    card = score_trajectory(run(HEAD, command("a", 0), PROVIDER_ERROR, end=final(False)))
    assert card.scalar == 0.6


def test_a_harness_error_after_meta_leaves_what_the_records_allow() -> None:
    card = score_trajectory([HEAD, command("a", 0), HARNESS_ERROR, final(True)])
    assert (card.coverage, card.end_state, card.scalar) == (1, None, None)


def test_a_harness_error_without_meta_leaves_nothing_but_the_reason() -> None:
    card = score_trajectory([HARNESS_ERROR])
    assert set(card.vector.values()) == {None}
    assert (card.scalar, card.signals, card.run_id) == (None, None, None)
    assert (card.scenario_id, card.model) == ("unknown", "unknown")
    assert judge_bundle([HARNESS_ERROR]) is None


def test_records_without_meta_can_not_be_scored() -> None:
    with pytest.raises(TrajectoryError, match="no meta"):
        score_trajectory([setup(), final(True)])


@pytest.mark.parametrize(
    ("adapter", "model"),
    [
        ({"provider": "p", "model": "m"}, "m"),
        ({"provider": "p", "model": None}, "p"),
        ({"provider": "p"}, "p"),
        ({}, "unknown"),
        (None, "unknown"),
        ("m", "unknown"),
    ],
)
def test_the_model_is_named_by_the_adapter(adapter: Any, model: str) -> None:
    assert score_trajectory([{**HEAD, "adapter": adapter}]).model == model


def test_a_scenario_without_id_is_unknown() -> None:
    scenario = {key: value for key, value in HEAD["scenario"].items() if key != "id"}
    head = {**HEAD, "scenario": scenario, "scenario_path": "scenarios/named.yaml"}
    assert score_trajectory([head]).scenario_id == "unknown"
