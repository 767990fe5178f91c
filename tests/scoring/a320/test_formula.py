"""The scalar's weights and penalties."""

from __future__ import annotations

import math

import pytest

from grader_service.scoring.a320 import formula


def test_with_everything_done_the_weights_add_up_to_one() -> None:
    assert formula.base(1, 1, 1) == 1
    assert formula.base(1, 1, None) == 1


def test_without_order_evidence_its_weight_goes_to_coverage() -> None:
    assert formula.base(0.5, 0.25, None) == pytest.approx(0.2 + 0.15)
    assert formula.base(0.5, 0.25, 0) == pytest.approx(0.2 + 0.1)


def test_a_missing_step_added_last_may_lower_the_base() -> None:
    assert formula.base(0, 3 / 4, None) == pytest.approx(0.45)
    assert formula.base(0, 1, 0) == pytest.approx(0.4)


def test_each_command_against_the_procedure_halves_and_a_dangerous_one_leaves_nothing() -> None:
    assert [formula.safety(0, n) for n in range(4)] == [1, 0.5, 0.25, 0.125]
    assert formula.safety(1, 0) == 0
    assert formula.safety(3, 2) == 0
    assert formula.safety(0, 100_000) == 0


def test_extraneous_commands_cost_a_twentieth_each_up_to_five() -> None:
    assert [formula.tidy(n) for n in (0, 1, 5, 6, 1000)] == pytest.approx(
        [1, 0.95, 0.75, 0.75, 0.75]
    )


def test_stored_floats_have_twelve_digits_and_no_negative_zero() -> None:
    assert formula.stored(1 / 3) == 0.333333333333
    assert math.copysign(1, formula.stored(-0.0)) == 1
    assert math.copysign(1, formula.stored(-1e-15)) == 1
