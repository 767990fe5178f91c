"""Recorded trajectories whose expected values were worked out by hand and by a second program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fractions import Fraction
from typing import Any

import pytest

from grader_service.errors import TrajectoryError
from grader_service.records.canonical import canonical_bytes, digest
from grader_service.records.trajectory import parse_trajectory
from grader_service.scoring.a320 import ScoreCard, aggregate, score_trajectory
from tests.scoring.a320.trajectories import BROKEN, EXPECTED, PINNED, READABLE, golden

TOLERANCE = EXPECTED["tolerance"]
PIN = PINNED / "pin.py"


def card_of(case: str) -> ScoreCard:
    return score_trajectory(parse_trajectory(golden(case)))


def assert_close(actual: Any, expected: Any) -> None:
    """Compare floats within the tolerance and all else exactly, types included."""
    if isinstance(expected, dict):
        for key, value in expected.items():
            assert_close(actual[key], value)
    elif isinstance(expected, list):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            assert_close(one, other)
    elif isinstance(expected, float):
        assert actual == pytest.approx(expected, abs=TOLERANCE, rel=0)
    else:
        assert (type(actual), actual) == (type(expected), expected)


@pytest.mark.parametrize("case", READABLE)
def test_a_recorded_run_gets_the_expected_card(case: str) -> None:
    expected = EXPECTED["cases"][case]
    assert_close(
        card_of(case).to_dict(),
        {key: value for key, value in expected.items() if key not in {"why", "judge"}},
    )


@pytest.mark.parametrize("case", READABLE)
def test_a_judge_sees_the_report_and_nothing_of_who_ran(case: str) -> None:
    expected = EXPECTED["cases"][case]["judge"]
    bundle = card_of(case).judge_bundle()
    if expected is None:
        assert bundle is None
        return
    assert bundle is not None
    assert bundle["agent_report"] == expected["agent_report"]
    assert bundle["final_ecam"] == expected["final_ecam"]
    text = json.dumps(bundle, ensure_ascii=False)
    assert [word for word in expected["must_not_contain"] if word in text] == []


def test_a_broken_line_inside_a_file_is_an_error_that_names_it() -> None:
    assert EXPECTED["cases"][BROKEN]["error"] == "TrajectoryError"
    with pytest.raises(TrajectoryError, match="line 8"):
        parse_trajectory(golden(BROKEN))


@pytest.mark.parametrize("mode", ["default", "include_errors"])
def test_all_recorded_runs_aggregate_to_the_expected_rows(mode: str) -> None:
    rows = aggregate(map(card_of, READABLE), include_errors=mode == "include_errors")
    assert len(rows) == len(EXPECTED["aggregate"][mode])
    assert_close(rows, EXPECTED["aggregate"][mode])


# Worked out on paper: coverage, order, end state, safety and tidy factors.
HAND = {
    "g01_apu_full": ("4/4", "5/5", "5/5", "1", "1"),
    "g02_apu_skip_isolation": ("3/4", "3/3", "5/5", "1", "1"),
    "g03_apu_ext_pwr_only": ("1/4", None, "5/5", "1", "1"),
    "g04_apu_nothing": ("0", None, "0/5", "1", "1"),
    "g05_eng1_full": ("3/3", "3/3", "6/6", "1", "1"),
    "g06_eng1_skip_isolation": ("2/3", "1/1", "5/6", "1", "1"),
    "g07_eng1_isolate_only": ("1/3", None, "6/6", "1", "1"),
    "g08_eng1_nothing": ("0", None, "5/6", "1", "1"),
    "g09_apu_order_violation": ("4/4", "3/5", "5/5", "1", "1"),
    "g10_apu_leading_on": ("4/4", "4/5", "5/5", "1", "95/100"),
    "g11_eng1_off_off": ("2/3", "1/1", "6/6", "1", "1"),
    "g13_hyd_anti_twice": ("5/5", "9/9", "4/4", "1/4", "95/100"),
    "g14_eng1_extraneous_cap": ("3/3", "3/3", "6/6", "1", "75/100"),
    "g20_apu_budget_tool_calls": ("1/4", None, "1/5", "1", "1"),
    "g21_apu_budget_sim_time": ("2/4", "1/1", "0/5", "1", "1"),
    "g22_apu_provider_error": ("3/4", "3/3", "1/5", "1", "1"),
    "g28_apu_nudge_recovers": ("2/4", "1/1", "5/5", "1", "1"),
    "g29_hyd_blocks_swapped": ("5/5", "5/9", "4/4", "1", "1"),
}


@pytest.mark.parametrize(("case", "values"), HAND.items())
def test_the_scalar_is_the_one_worked_out_in_fractions(
    case: str, values: tuple[str | None, ...]
) -> None:
    coverage, order, end_state, safety, tidy = (
        None if value is None else Fraction(value) for value in values
    )
    assert coverage is not None
    assert end_state is not None
    assert safety is not None
    assert tidy is not None
    if order is None:
        base = Fraction(4, 10) * end_state + Fraction(6, 10) * coverage
    else:
        base = Fraction(4, 10) * (end_state + coverage) + Fraction(2, 10) * order
    card = card_of(case)
    assert card.coverage == pytest.approx(float(coverage), abs=TOLERANCE)
    assert card.order == (None if order is None else pytest.approx(float(order), abs=TOLERANCE))
    assert card.end_state == pytest.approx(float(end_state), abs=TOLERANCE)
    assert card.scalar == pytest.approx(float(safety * tidy * base), abs=TOLERANCE)


@pytest.mark.parametrize(
    ("cases", "scalars"),
    [
        (
            (
                "g01_apu_full",
                "g02_apu_skip_isolation",
                "g03_apu_ext_pwr_only",
                "g04_apu_nothing",
            ),
            (1.00, 0.90, 0.55, 0.00),
        ),
        (
            (
                "g05_eng1_full",
                "g06_eng1_skip_isolation",
                "g07_eng1_isolate_only",
                "g08_eng1_nothing",
            ),
            (1.00, 0.80, 0.60, 1 / 3),
        ),
    ],
)
def test_the_less_is_done_the_lower_the_score(
    cases: tuple[str, ...], scalars: tuple[float, ...]
) -> None:
    found = [json.loads(card_of(case).canonical())["scalar"] for case in cases]
    assert found == pytest.approx(scalars, abs=TOLERANCE)
    assert found == sorted(set(found), reverse=True)


@pytest.mark.parametrize("case", READABLE)
def test_the_bytes_of_a_card_are_pinned(case: str) -> None:
    assert card_of(case).canonical() == (PINNED / f"{case}.json").read_bytes(), PIN


@pytest.mark.parametrize(
    ("name", "include_errors"),
    [("aggregate.json", False), ("aggregate_include_errors.json", True)],
)
def test_the_bytes_of_the_aggregate_are_pinned(name: str, include_errors: bool) -> None:
    rows = aggregate(map(card_of, READABLE), include_errors=include_errors)
    assert canonical_bytes(rows) == (PINNED / name).read_bytes(), PIN


@pytest.mark.parametrize("seed", ["0", "1", "random"])
def test_other_processes_with_other_hash_seeds_give_the_pinned_bytes(seed: str) -> None:
    printed = subprocess.run(
        [sys.executable, PIN, "--digests"],
        env={**os.environ, "PYTHONHASHSEED": seed},
        check=True,
        capture_output=True,
    ).stdout
    pinned = {path.name: digest(path.read_bytes()) for path in PINNED.glob("*.json")}
    assert json.loads(printed) == pinned
    assert len(pinned) == len(READABLE) + 2


def test_scoring_loads_no_simulator_no_yaml_and_no_network_code() -> None:
    program = (
        "import sys, json; before = set(sys.modules); import grader_service.scoring.a320;"
        "print(json.dumps(sorted({name.split('.')[0] for name in set(sys.modules) - before})))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True
    ).stdout
    loaded = set(json.loads(printed))
    assert "grader_service" in loaded
    assert not loaded & {
        "a320_sim",
        "a320_mcp",
        "mcp",
        "litellm",
        "yaml",
        "httpx2",
        "openai",
        "anthropic",
        "ssl",
    }
