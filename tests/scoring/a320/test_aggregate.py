"""Rows over many runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grader_service.scoring.a320 import Aggregator, ScoreCard, aggregate

if TYPE_CHECKING:
    from grader_service.scoring.a320.card import Status


def card(
    scalar: float | None,
    *,
    model: str = "m",
    scenario: str = "s",
    status: Status = "scored",
    order: float | None = 1.0,
    dangerous: int | None = 0,
    passed: bool | None = True,
) -> ScoreCard:
    return ScoreCard(
        run_id=None,
        scenario_id=scenario,
        model=model,
        status=status,
        reason=None,
        coverage=0.5,
        order=order,
        end_state=scalar,
        all_passed=passed,
        safety_dangerous=dangerous,
        scalar=scalar,
    )


def test_no_cards_give_no_rows() -> None:
    assert aggregate([]) == []


def test_rows_are_sorted_by_scenario_and_model_by_code_points() -> None:
    keys = [("s", "b"), ("s", "B"), ("é", "a"), ("s", "\ue000"), ("s", "😀")]
    rows = aggregate(card(1.0, scenario=scenario, model=model) for scenario, model in keys)
    assert [(row["scenario_id"], row["model"]) for row in rows] == [
        ("s", "B"),
        ("s", "b"),
        ("s", "\ue000"),
        ("s", "😀"),
        ("é", "a"),
    ]


def test_the_spread_is_that_of_a_sample() -> None:
    (row,) = aggregate([card(0.0), card(1.0)])
    assert row["score_mean"] == 0.5
    assert row["score_std"] == pytest.approx(0.5**0.5, abs=1e-12)


def test_one_run_has_no_spread() -> None:
    (row,) = aggregate([card(0.25)])
    assert (row["score_mean"], row["score_std"]) == (0.25, None)


def test_dangerous_runs_stay_in_the_mean_with_their_zero() -> None:
    (row,) = aggregate([card(1.0), card(0.0, dangerous=2)])
    assert (row["score_mean"], row["n_dangerous"], row["dangerous_rate"]) == (0.5, 1, 0.5)


def test_provider_errors_join_the_pool_only_on_request() -> None:
    cards = [card(1.0), card(0.0, status="provider_error", passed=False)]
    (without,) = aggregate(cards)
    (with_errors,) = aggregate(cards, include_errors=True)
    assert (without["n_scored"], without["score_mean"], without["pass_rate"]) == (1, 1, 1)
    assert (with_errors["n_scored"], with_errors["score_mean"]) == (2, 0.5)
    assert with_errors["pass_rate"] == 0.5
    assert without["provider_error_rate"] == with_errors["provider_error_rate"] == 0.5


@pytest.mark.parametrize("include_errors", [False, True])
def test_runs_without_scalar_count_but_never_enter_the_pool(include_errors: bool) -> None:
    cards = [
        card(None, status="invalid", dangerous=1, passed=None),
        card(None, status="provider_error", dangerous=None, passed=None),
    ]
    (row,) = aggregate(cards, include_errors=include_errors)
    assert (row["n"], row["n_scored"], row["n_dangerous"]) == (2, 0, 1)
    assert (row["invalid_rate"], row["provider_error_rate"]) == (0.5, 0.5)
    pool = ("score_mean", "score_std", "coverage_mean", "order_mean", "end_state_mean")
    assert {row[name] for name in (*pool, "pass_rate", "dangerous_rate")} == {None}


def test_runs_without_order_are_left_out_of_its_mean() -> None:
    (row,) = aggregate([card(1.0, order=None), card(1.0, order=0.5)])
    assert row["order_mean"] == 0.5
    (row,) = aggregate([card(1.0, order=None)])
    assert row["order_mean"] is None


def test_duplicates_count_as_they_come() -> None:
    same = card(1.0)
    assert aggregate([same, same])[0]["n"] == 2


def test_cards_may_be_added_one_by_one_and_rows_taken_at_any_time() -> None:
    cards = [card(0.1), card(0.7), card(None, status="invalid")]
    aggregator = Aggregator()
    for number, each in enumerate(cards, start=1):
        aggregator.add(each)
        assert aggregator.rows() == aggregate(cards[:number])
