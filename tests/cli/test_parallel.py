"""Work in several processes: in order, bounded, and ended with whoever asked for it."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from typing import overload

import pytest

from grader_service.cli.parallel import AHEAD, CHUNK, in_order
from grader_service.errors import SetupError


class Watched(Sequence[int]):
    """So many numbers, which remember how far they were read."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.read = 0

    def __len__(self) -> int:
        return self.total

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        rows = range(self.total)[index]
        self.read = max(self.read, rows.stop if isinstance(rows, range) else rows + 1)
        return rows


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("count", [0, 1, CHUNK, 5 * CHUNK + 3])
def test_results_come_in_the_order_of_the_inputs(jobs: int, count: int) -> None:
    assert list(in_order(str, range(count), jobs)) == [str(number) for number in range(count)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_inputs_are_not_read_far_ahead_of_what_was_taken(jobs: int) -> None:
    items = Watched(40 * CHUNK)
    results = in_order(abs, items, jobs)
    for taken in range(3 * CHUNK):
        assert next(results) == taken
        assert items.read <= taken + (AHEAD * jobs + 1) * CHUNK
    results.close()


def test_processes_end_when_nobody_wants_the_rest() -> None:
    results = in_order(abs, range(40 * CHUNK), 2)
    next(results)
    assert multiprocessing.active_children()
    results.close()
    assert not multiprocessing.active_children()


def test_a_process_that_is_killed_is_told_and_not_waited_for() -> None:
    with pytest.raises(SetupError, match="was killed") as caught:
        list(in_order(os._exit, [9] * 2 * CHUNK, 2))
    assert "--jobs" in str(caught.value.fix)


def test_what_the_work_raises_arrives() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        list(in_order(int, ["1"] * CHUNK + ["one"], 2))
