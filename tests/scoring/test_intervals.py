"""Wilson's interval, against published and independently computed values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader_service.scoring.intervals import wilson


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        (7, 10, 0.3967781475, 0.8922087326),
        (0, 10, 0.0, 0.2775327999),
        (10, 10, 0.7224672001, 1.0),
    ],
)
def test_it_gives_the_reference_values(successes: int, n: int, low: float, high: float) -> None:
    interval = wilson(successes, n)
    assert interval == pytest.approx((low, high), abs=1e-8)


def test_without_trials_there_is_no_interval() -> None:
    assert wilson(0, 0) is None


@pytest.mark.parametrize(("successes", "n"), [(-1, 3), (4, 3)])
def test_impossible_counts_are_refused(successes: int, n: int) -> None:
    with pytest.raises(ValueError, match="successes out of"):
        wilson(successes, n)


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_it_lies_in_the_unit_interval_and_holds_the_observed_rate(counts: tuple[int, int]) -> None:
    successes, n = counts
    interval = wilson(successes, n)
    assert interval is not None
    assert 0 <= interval.low <= successes / n <= interval.high <= 1


@given(st.integers(1, 1000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_success_and_failure_mirror_each_other(counts: tuple[int, int]) -> None:
    successes, n = counts
    one, other = wilson(successes, n), wilson(n - successes, n)
    assert one is not None
    assert other is not None
    assert (one.low, one.high) == pytest.approx((1 - other.high, 1 - other.low), abs=1e-12)
