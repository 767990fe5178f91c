from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from grader_service.providers.per_process import PerProcess

if TYPE_CHECKING:
    import pytest


def test_threads_that_come_first_together_make_one_value() -> None:
    gate = threading.Barrier(8)
    made = PerProcess(object)

    def get() -> object:
        gate.wait()
        return made.get()

    with ThreadPoolExecutor(8) as pool:
        values = [future.result() for future in [pool.submit(get) for _ in range(8)]]
    assert len({id(value) for value in values}) == 1


def test_another_process_makes_its_own_value_and_leaves_the_first_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = PerProcess(object)
    ours = made.get()
    monkeypatch.setattr("os.getpid", lambda: 1)
    assert made.get() is not ours
    assert made.take() is not ours
    assert made.take() is None
    monkeypatch.undo()
    assert made.get() is ours


def test_a_value_that_was_taken_is_made_again() -> None:
    made = PerProcess(object)
    first = made.get()
    assert made.take() is first
    assert made.get() is not first
