"""A lazy list behaves as the list it stands for, and makes each item once."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader_service.records.lazy import LazyList
from tests.records.examples import thorough


def lazy(count: int) -> tuple[LazyList[list[int]], list[int]]:
    """Return a lazy list of [row] items, and the rows made so far."""
    made: list[int] = []

    def make(start: int, stop: int) -> list[list[int]]:
        made.extend(range(start, stop))
        return [[row] for row in range(start, stop)]

    return LazyList(count, make), made


indices = st.one_of(
    st.integers(-12, 12),
    st.slices(10),
    st.just(slice(None, None, -1)),
)


@thorough
@given(st.lists(indices, max_size=6))
def test_reading_it_is_reading_a_list(reads: list[int | slice]) -> None:
    items, _ = lazy(10)
    plain = [[row] for row in range(10)]
    for index in reads:
        if isinstance(index, int) and not -10 <= index < 10:
            with pytest.raises(IndexError):
                items[index]
        else:
            assert items[index] == plain[index]
    assert items == plain
    assert list(reversed(items)) == plain[::-1]


def test_only_what_is_read_is_made() -> None:
    items, made = lazy(10)
    assert len(items) == 10
    assert made == []
    assert items[-1] == [9]
    assert items[2:4] == [[2], [3]]
    assert made == [9, 2, 3]


def test_an_item_that_was_read_stays_the_same_object() -> None:
    items, _ = lazy(5)
    items[1].append(7)
    assert items[1] is items[0:3][1] is list(items)[1]
    assert items[1] == [1, 7]


def test_it_is_copied_and_pickled_as_the_list_it_stands_for() -> None:
    items, _ = lazy(3)
    again = pickle.loads(pickle.dumps(items))  # noqa: S301  # our own bytes
    assert again == copy.deepcopy(items) == [[0], [1], [2]]
    assert copy.deepcopy(items)[0] is not items[0]


def test_it_can_be_changed_as_a_list_can() -> None:
    items, _ = lazy(3)
    items.append([9])
    del items[0]
    items[0] = [5]
    items.insert(0, [4])
    assert items == [[4], [5], [2], [9]]
    assert len(items) == 4
    assert items != [[4]]
