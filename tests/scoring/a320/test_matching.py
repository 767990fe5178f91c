"""Matching, classes and order of commands."""

from __future__ import annotations

import pytest

from grader_service.scoring.a320 import score_trajectory
from grader_service.scoring.a320.ground_truth import read_ground_truth
from grader_service.scoring.a320.matching import constraints, count_order
from tests.scoring.a320.trajectories import action, block, command, meta, run

GEN_RESET = meta(
    [
        block(action("gen_1", 0), action("gen_1", 1), ordered=True),
        block(action("gen_1", 0)),
    ]
)


@pytest.mark.parametrize(
    ("executed", "matches", "coverage", "order", "repeats"),
    [
        ("off", [0, None, None], 1 / 3, None, []),
        ("off off", [0, None, 1], 2 / 3, 1, []),
        ("off on", [0, 1, None], 2 / 3, 1, []),
        ("on off", [1, 0, None], 2 / 3, 0, []),
        ("off on off", [0, 1, 2], 1, 1, []),
        ("on off on off", [1, 0, 3], 1, 2 / 3, [2]),
        ("off off on", [0, 2, 1], 1, 2 / 3, []),
        ("off off on off", [0, 2, 1], 1, 2 / 3, [3]),
        ("off on off on", [0, 1, 2], 1, 1, [3]),
    ],
)
def test_matching_is_greedy_even_where_order_suffers(
    executed: str,
    matches: list[int | None],
    coverage: float,
    order: float | None,
    repeats: list[int],
) -> None:
    commands = [command("gen_1", int(word == "on")) for word in executed.split()]
    card = score_trajectory(run(GEN_RESET, *commands))
    assert list(card.matches) == matches
    assert card.coverage == pytest.approx(coverage, abs=1e-9)
    assert card.order == (None if order is None else pytest.approx(order, abs=1e-9))
    assert card.extraneous == len(repeats)
    assert [
        number
        for number, name in enumerate(card.classes)
        if name == "extraneous:repeat_of_required"
    ] == repeats


def test_control_names_compare_exactly() -> None:
    head = meta([block(action("gen_1", 0))])
    spellings = ["GEN_1", " gen_1", "gen_1 "]
    card = score_trajectory(run(head, *(command(name, 0) for name in spellings)))
    assert card.coverage == 0
    assert set(card.classes) == {"extraneous:uncatalogued_in_gt"}


def test_values_compare_without_tolerance() -> None:
    head = meta([block(action("a", 0.3))])
    card = score_trajectory(run(head, command("a", 0.1 + 0.2), command("a", "0.30")))
    assert card.matches == (1,)


def test_required_comes_before_optional_before_forbidden() -> None:
    pair = action("a", 1)
    forbidden = [{**pair, "severity": "anti_procedure"}]
    twice = [command("a", 1), command("a", 1)]

    surplus_optional = score_trajectory(run(meta([block(pair)], [pair], forbidden), *twice))
    assert surplus_optional.classes == ("matched_required", "optional")

    one_reset_only = score_trajectory(run(meta([block(pair)], None, forbidden), *twice))
    assert one_reset_only.classes == ("matched_required", "forbidden:anti_procedure")
    assert one_reset_only.extraneous == 0


def test_forbidden_commands_count_by_occurrence() -> None:
    forbidden = [action("b", 0, severity="anti_procedure")]
    head = meta([block(action("a", 0))], forbidden=forbidden)
    card = score_trajectory(run(head, command("a", 0), command("b", 0), command("b", "0")))
    assert card.safety_anti_procedure == 2
    assert card.scalar == 0.25


def test_all_pairs_of_blocks_and_of_ordered_actions_are_constrained() -> None:
    scenario = meta(
        [
            block(action("a", 0), action("b", 0)),
            block(action("c", 0), action("d", 0), action("e", 0), ordered=True),
            block(action("f", 0)),
        ]
    )["scenario"]
    required = read_ground_truth(scenario).required
    free = {(0, 1)}
    assert set(constraints(required)) == {
        (x, y) for y in range(6) for x in range(y) if (x, y) not in free
    }


def test_two_blocks_of_one_name_are_two_blocks() -> None:
    required = read_ground_truth(
        meta([block(action("a", 0)), block(action("b", 0))])["scenario"]
    ).required
    assert list(constraints(required)) == [(0, 1)]
    assert count_order(required, [1, 0]) == (0, 1)


def test_a_card_says_how_each_command_was_matched() -> None:
    forbidden = [action("b", 0, severity="dangerous")]
    head = meta([block(action("a", 0), action("c", 1))], forbidden=forbidden)
    calls = [command("c", "1"), command("b", False), command("x", 3, step="two")]
    assert score_trajectory(run(head, *calls)).to_dict()["commands"] == [
        {
            "index": 0,
            "step": 1,
            "control": "c",
            "value": 1.0,
            "class": "matched_required",
            "subtype": None,
            "severity": None,
            "required_index": 1,
        },
        {
            "index": 1,
            "step": 2,
            "control": "b",
            "value": 0.0,
            "class": "forbidden",
            "subtype": None,
            "severity": "dangerous",
            "required_index": None,
        },
        {
            "index": 2,
            "step": None,
            "control": "x",
            "value": 3.0,
            "class": "extraneous",
            "subtype": "uncatalogued_in_gt",
            "severity": None,
            "required_index": None,
        },
    ]
