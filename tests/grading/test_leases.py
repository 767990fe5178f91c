"""The gate: many trials together, or a dangerous one alone."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from grader_service.grading.leases import Gate, Slots


def test_ordinary_trials_go_through_together() -> None:
    gate, meeting = Gate(), threading.Barrier(4, timeout=10)

    def trial() -> None:
        with gate.enter(alone=False):
            meeting.wait()

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(trial) for _ in range(4)]:
            future.result()


def test_a_dangerous_trial_is_never_inside_with_another() -> None:
    gate, inside, lock = Gate(), 0, threading.Lock()
    seen: list[tuple[bool, int]] = []

    def trial(alone: bool) -> None:
        nonlocal inside
        with gate.enter(alone=alone):
            with lock:
                inside += 1
                seen.append((alone, inside))
            time.sleep(0.002)
            with lock:
                seen.append((alone, inside))
                inside -= 1

    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(trial, number % 5 == 0) for number in range(60)]:
            future.result()
    assert len(seen) == 120
    assert all(count == 1 for alone, count in seen if alone)


def test_a_dangerous_trial_does_not_wait_for_ever_behind_ordinary_ones() -> None:
    gate, stop, entered = Gate(), threading.Event(), threading.Event()

    def ordinary() -> None:
        while not stop.is_set():
            with gate.enter(alone=False):
                time.sleep(0.001)

    def dangerous() -> None:
        with gate.enter(alone=True):
            entered.set()

    with ThreadPoolExecutor(5) as pool:
        workers = [pool.submit(ordinary) for _ in range(4)]
        waiting = pool.submit(dangerous)
        assert entered.wait(20)
        stop.set()
        for future in (*workers, waiting):
            future.result()


def test_an_error_inside_opens_the_gate_again() -> None:
    gate = Gate()
    for alone in (True, False):
        with pytest.raises(ZeroDivisionError), gate.enter(alone=alone):
            _ = 1 // 0
    with gate.enter(alone=True):
        pass


@pytest.mark.parametrize("alone", [False, True])
def test_a_closed_gate_sends_away_who_waits_and_who_comes(alone: bool) -> None:
    gate, waiting = Gate(), threading.Event()

    def trial() -> bool:
        waiting.set()
        with gate.enter(alone=alone) as inside:
            return inside

    with ThreadPoolExecutor(1) as pool, gate.enter(alone=True) as inside:
        assert inside
        sent_away = pool.submit(trial)
        assert waiting.wait(20)
        gate.close()
        assert not sent_away.result()
    assert not trial()


def test_threads_at_work_and_messages_taken_are_counted() -> None:
    slots = Slots(2)
    with slots.take():
        assert (slots.taken, slots.busy, slots.free) == (1, 1, 1)
        with slots.take():
            assert slots.free == 0
        with pytest.raises(ZeroDivisionError), slots.take():
            _ = 1 // 0
    assert (slots.taken, slots.busy, slots.free) == (3, 0, 2)
