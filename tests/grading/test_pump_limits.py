"""The pump publishes no more than providers take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from grader_service.errors import TryLaterError
from grader_service.grading.leases import Leases, Slots
from grader_service.grading.limits import ProviderLimit, ProviderLimits
from grader_service.grading.pump import Pump
from grader_service.storage import gradings, trials, workers
from grader_service.storage.database import Database
from grader_service.storage.tables import gradings as table
from tests.grading.test_limits import Caller, down, limited

RUBRIC = "r" * 64


class Kept:
    """A broker that keeps what it is given."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def publish(self, grading_ids: list[str]) -> None:
        self.ids += grading_ids

    def depth(self) -> int:
        return 0

    def lost_data(self) -> bool:
        return False


@pytest.fixture
def limits() -> Iterator[ProviderLimits]:
    limits = ProviderLimits(
        {
            "free": ProviderLimit("free"),
            "three": ProviderLimit("three", concurrency=3),
            "": ProviderLimit("three", concurrency=3),
        },
        first_wait_s=60,
    )
    yield limits
    limits.close()


@pytest.fixture
def queue() -> Kept:
    return Kept()


@pytest.fixture
def pump(database: Database, limits: ProviderLimits, queue: Kept) -> Pump:
    pump = Pump(
        database=database,
        queue=queue,  # type: ignore[arg-type]  # lists are what it is given
        leases=Leases(database, lease_s=30),
        slots=Slots(16),
        node="w1",
        boot_id="b1",
        judges=["free", "three", ""],
        every_s=0.25,
        stale_s=30,
        limits=limits,
    )
    with database.write() as unit:
        workers.boot(unit, node="w1", boot_id="b1", judges=pump.judges)
        trials.put_rubric(unit, digest=RUBRIC, rubric_id="x", body={})
        for number in range(60):
            trial = trials.NewTrial("t", "r", None, "c", "robot", "s", 0, None, RUBRIC, "d", [], [])
            gradings.enqueue(
                unit,
                trial_id=trials.add(unit, trial),
                tenant="t",
                run="r",
                rubric_digest=RUBRIC,
                judge=pump.judges[number % 3],
                judge_digest="jd",
            )
    return pump


def published(pump: Pump, queue: Kept) -> Counter[str]:
    """Do a round and count what it published, by judge."""
    queue.ids.clear()
    pump.round()
    with pump.database.read() as unit:
        rows = unit.execute(table.select().where(table.c.id.in_(queue.ids)))
        return Counter(row.judge for row in rows)


def test_judges_of_one_limit_share_its_room(pump: Pump, queue: Kept) -> None:
    counts = published(pump, queue)
    assert counts["free"] == 20
    assert counts["three"] + counts[""] in (3, 4)


def test_what_a_limit_keeps_back_leaves_the_others_their_room(pump: Pump, queue: Kept) -> None:
    pump.slots = Slots(4)
    total = sum((published(pump, queue) for _ in range(3)), Counter[str]())
    assert total["free"] == 20
    assert 9 <= total["three"] + total[""] <= 12


def test_nothing_is_published_for_a_paused_provider(pump: Pump, queue: Kept) -> None:
    Caller(pump.limits, "three").call(limited(60))
    assert published(pump, queue) == {"free": 20}


def test_nothing_is_published_for_a_provider_that_is_down(pump: Pump, queue: Kept) -> None:
    caller = Caller(pump.limits, "free")
    for _ in range(8):
        caller.call(down())
    assert "free" not in published(pump, queue)
    with pump.database.read() as unit:
        paused = workers.paused_judges(unit)
    assert paused.keys() == {"free"}
    assert paused["free"].startswith("breaker open")


def test_a_provider_that_may_be_up_again_gets_one_trial(pump: Pump, queue: Kept) -> None:
    pump.limits.first_wait_s = 0.01
    Caller(pump.limits, "free").break_it()
    assert published(pump, queue)["free"] in (1, 2)


def test_a_worker_counts_those_that_are_alive(pump: Pump) -> None:
    with pump.database.write() as unit:
        workers.boot(unit, node="w2", boot_id="b2", judges=[])
    pump.round()
    assert pump.limits.workers == 2


def test_a_trial_that_may_not_be_asked_about_now_is_told_when(limits: ProviderLimits) -> None:
    caller = Caller(limits, "three")
    caller.call(limited(60))
    with pytest.raises(TryLaterError, match="provider paused until"), limits.admitted(caller.judge):
        pass
