"""What a scenario asks for, and scenarios that can't be scored."""

from __future__ import annotations

from typing import Any

import pytest

from grader_service.errors import TrajectoryError
from grader_service.scoring.a320 import score_trajectory
from grader_service.scoring.a320.ground_truth import read_ground_truth, to_number
from tests.scoring.a320.trajectories import action, block, command, final, meta, run


def truth(procedure: Any, **more: Any) -> dict[str, Any]:
    return {"ground_truth": {"procedure": procedure, **more}}


def test_the_procedure_is_flattened_block_by_block() -> None:
    blocks = [block(action("a", 0), action("b", 1), ordered=True), block(action("a", 2))]
    required = read_ground_truth(truth(blocks)).required
    assert [(each.pair, each.block, each.ordered) for each in required] == [
        (("a", 0), 0, True),
        (("b", 1), 0, True),
        (("a", 2), 1, False),
    ]


def test_absent_and_null_lists_are_empty() -> None:
    blocks = [{"block": "x"}, {"block": "y", "actions": None}, block(action("a", 0))]
    read = read_ground_truth(truth(blocks, optional_actions=None))
    assert len(read.required) == 1
    assert read.required[0].block == 2
    assert not read.optional
    assert not read.forbidden


@pytest.mark.parametrize(
    "scenario",
    [
        {},
        {"ground_truth": None},
        {"ground_truth": {}},
        truth(None),
        truth({}),
        truth([]),
        truth([{"block": "x", "actions": []}]),
        truth(["x"]),
        truth([{"actions": {"control": "a"}}]),
        truth([block(action("", 0))]),
        truth([block(action("a", "on"))]),
        truth([block(action("a", None))]),
        truth([block({"value": 0})]),
        truth([block(action("a", 0))], optional_actions=[action(7, 0)]),
        truth([block(action("a", 0))], forbidden_actions="all"),
    ],
)
def test_a_scenario_that_requires_nothing_usable_is_refused(scenario: dict[str, Any]) -> None:
    with pytest.raises(TrajectoryError, match="the scenario in the meta record") as caught:
        read_ground_truth(scenario)
    assert caught.value.fix


@pytest.mark.parametrize("severity", [None, "minor", "Dangerous", 1, []])
def test_an_unknown_severity_is_refused_because_penalties_are_not_guessed(severity: Any) -> None:
    forbidden = [action("b", 0, severity=severity)]
    with pytest.raises(TrajectoryError, match="severity"):
        read_ground_truth(truth([block(action("a", 0))], forbidden_actions=forbidden))


@pytest.mark.parametrize(
    "order", [("dangerous", "anti_procedure"), ("anti_procedure", "dangerous")]
)
def test_of_two_severities_for_one_pair_the_worse_counts_once(order: tuple[str, str]) -> None:
    forbidden = [action("b", 0, severity=severity) for severity in order]
    head = meta([block(action("a", 0))], forbidden=forbidden)
    card = score_trajectory(run(head, command("a", 0), command("b", 0)))
    assert (card.safety_dangerous, card.safety_anti_procedure) == (1, 0)


def test_a_pair_that_is_optional_and_forbidden_is_optional_with_a_warning() -> None:
    head = meta(
        [block(action("a", 0))],
        optional=[action("b", 0)],
        forbidden=[action("b", False, severity="dangerous")],
    )
    card = score_trajectory(run(head, command("a", 0), command("b", 0)))
    assert card.classes == ("matched_required", "optional")
    assert card.safety_dangerous == 0
    assert card.warnings == ("b = 0 is both optional and forbidden: taken as optional",)
    assert card.to_dict()["warnings"] == list(card.warnings)


def test_the_warning_does_not_wait_for_the_command() -> None:
    forbidden = [action("b", 0, severity="dangerous")]
    head = meta([block(action("a", 0))], optional=[action("b", 0)], forbidden=forbidden)
    assert len(score_trajectory(run(head, end=final(True))).warnings) == 1


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (0, 0.0),
        (True, 1.0),
        (2.5, 2.5),
        ("1", 1.0),
        (" 1 ", 1.0),
        ("01", 1.0),
        ("1e0", 1.0),
        ("-0", 0.0),
        (2**53 + 1, 2.0**53),
        ("on", None),
        ("true", None),
        ("", None),
        ("0x1", None),
        ("\ud800", None),
        ("nan", None),
        ("1e999", None),
        (float("nan"), None),
        (float("-inf"), None),
        (10**400, None),
        (None, None),
        ([1], None),
        ({}, None),
    ],
)
def test_values_convert_as_the_server_converts_them(value: Any, number: float | None) -> None:
    assert to_number(value) == number
