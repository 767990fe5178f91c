"""The pump, over a real Redis: what is due is published, what the broker loses once more."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis
from sqlalchemy import select

from grader_service.errors import UnavailableError
from grader_service.grading.celery_queue import CeleryQueue, key_prefix
from grader_service.grading.leases import Leases, Slots
from grader_service.grading.pump import Pump
from grader_service.storage import gradings, publishing, trials, verdicts, workers
from grader_service.storage.database import Database
from grader_service.storage.tables import gradings as table
from grader_service.storage.tables import workers as workers_table
from tests.support.servers import RedisServer

PREFIX = key_prefix("sqlite:///x")
RUBRIC = "r" * 64


@pytest.fixture
def queue(redis_server: RedisServer) -> Iterator[CeleryQueue]:
    redis_server.flush()
    queue = CeleryQueue(redis_server.url, PREFIX)
    yield queue
    queue.close()


@pytest.fixture
def pump(database: Database, queue: CeleryQueue) -> Pump:
    pump = Pump(
        database=database,
        queue=queue,
        leases=Leases(database, lease_s=30),
        slots=Slots(2),
        node="w1",
        boot_id="b1",
        judges=["j"],
        every_s=1,
        stale_s=30,
    )
    with database.write() as unit:
        workers.boot(unit, node="w1", boot_id="b1", judges=["j"])
    return pump


def store(database: Database, count: int) -> list[str]:
    with database.write() as unit:
        trials.put_rubric(unit, digest=RUBRIC, rubric_id="x", body={})
        return [
            gradings.enqueue(
                unit,
                trial_id=trials.add(
                    unit,
                    trials.NewTrial(
                        "t", "r", None, "c", "robot", "s", 0, None, RUBRIC, "d", [], []
                    ),
                ),
                tenant="t",
                run="r",
                rubric_digest=RUBRIC,
                judge="j",
                judge_digest="jd",
            )
            for _ in range(count)
        ]


def test_no_more_is_published_than_four_times_the_concurrency(
    pump: Pump, database: Database, queue: CeleryQueue
) -> None:
    store(database, 20)
    assert [pump.round() for _ in range(3)] == [8, 0, 0]
    assert queue.depth() == 8


def test_what_the_broker_lost_is_published_again_at_once(
    pump: Pump, database: Database, queue: CeleryQueue, redis_server: RedisServer
) -> None:
    store(database, 3)
    assert pump.round() == 3
    redis_server.flush()
    assert pump.round() == 3
    assert queue.depth() == 3


def test_services_that_share_a_redis_do_not_see_each_others_messages(
    pump: Pump, database: Database, redis_server: RedisServer
) -> None:
    store(database, 3)
    pump.round()
    other = CeleryQueue(redis_server.url, key_prefix("sqlite:///y"))
    assert other.depth() == 0
    other.close()


def test_a_message_carries_an_id_as_json_and_nothing_of_the_trial(
    pump: Pump, database: Database, redis_server: RedisServer
) -> None:
    [grading_id] = store(database, 1)
    pump.round()
    with Redis(port=redis_server.port, decode_responses=True) as redis:
        [message] = redis.lrange(f"{PREFIX}grade", 0, -1)
    assert "application/json" in message
    assert grading_id in message


def test_when_the_broker_is_down_rows_stay_due(pump: Pump, database: Database) -> None:
    ids = store(database, 2)
    pump.queue = CeleryQueue("redis://127.0.0.1:9/0", PREFIX)
    with pytest.raises(UnavailableError):
        pump.round()
    with database.write() as unit:
        assert publishing.publish_due(unit, judges=["j"], limit=9, stale_s=30) == ids


def test_a_trial_whose_every_worker_died_ends_as_worker_lost(
    pump: Pump, database: Database
) -> None:
    [grading_id] = store(database, 1)
    with database.write() as unit:
        claim = gradings.claim(unit, grading_id, owner="dead", lease_s=-1)
        assert claim is not None
        unit.execute(table.update().values(lost_leases=gradings.MAX_LOST_LEASES - 1))
    pump.round()
    with database.read() as unit:
        [verdict] = verdicts.of_trial(unit, claim.trial_id)
    assert (verdict.outcome, verdict.reason) == ("ungraded", "worker_lost")


def test_each_round_shows_that_the_worker_makes_progress(pump: Pump, database: Database) -> None:
    pump.round()
    with database.read() as unit:
        [worker] = workers.seen(unit, within_s=5)
    assert worker.node == "w1"
    assert worker.judges == ["j"]


def last_progress(database: Database) -> float:
    with database.read() as unit:
        return float(unit.execute(select(workers_table.c.last_progress)).scalar_one())


def test_a_worker_that_takes_no_message_though_some_wait_makes_no_progress(
    pump: Pump, database: Database
) -> None:
    store(database, 3)
    pump.round()
    pump.round()
    before = last_progress(database)
    pump.round()
    assert last_progress(database) == before
    with pump.slots.take():
        pass
    pump.round()
    assert last_progress(database) > before


def test_a_worker_that_has_no_message_or_no_thread_to_take_makes_progress(
    pump: Pump, database: Database
) -> None:
    pump.round()
    before = last_progress(database)
    pump.round()
    idle = last_progress(database)
    assert idle > before
    store(database, 3)
    with pump.slots.take(), pump.slots.take():
        for _ in range(4):
            pump.round()
        full = last_progress(database)
        pump.round()
        assert last_progress(database) > full > idle


def test_a_worker_tells_what_keeps_it_from_working_until_it_is_over(
    pump: Pump, database: Database, queue: CeleryQueue
) -> None:
    pump.queue = CeleryQueue("redis://127.0.0.1:9/0", PREFIX)
    for _ in range(2):
        with pytest.raises(UnavailableError):
            pump.round()
    with database.read() as unit:
        [worker] = workers.seen(unit, within_s=5)
    assert "the broker did not answer" in worker.trouble
    pump.queue = queue
    pump.round()
    pump.round()
    with database.read() as unit:
        [worker] = workers.seen(unit, within_s=5)
    assert worker.trouble is None


def test_a_worker_that_ended_in_order_is_off_the_list(pump: Pump, database: Database) -> None:
    pump.leave()
    with database.read() as unit:
        assert workers.seen(unit, within_s=5) == []


def test_after_an_outage_of_the_database_the_living_may_renew_what_they_hold(
    pump: Pump, database: Database
) -> None:
    [grading_id] = store(database, 1)
    with database.write() as unit:
        claim = gradings.claim(unit, grading_id, owner="w2", lease_s=-1)
    assert claim is not None
    pump.round()
    with database.write() as unit:
        # It was taken back, and is held again by somebody whose lease ran out.
        assert not gradings.renew(unit, {grading_id: claim.token}, lease_s=30)
        claim = gradings.claim(unit, grading_id, owner="w2", lease_s=-1)
    assert claim is not None
    pump._last_round -= 100
    pump.round()
    with database.write() as unit:
        assert gradings.renew(unit, {grading_id: claim.token}, lease_s=30) == {grading_id}


def test_a_worker_that_had_to_wait_for_the_database_lets_the_others_renew_first(
    pump: Pump, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    [grading_id] = store(database, 1)
    with database.write() as unit:
        claim = gradings.claim(unit, grading_id, owner="w2", lease_s=-1)
    assert claim is not None
    away = iter([UnavailableError("the database did not answer")])
    write = database.write

    def back_soon() -> Any:
        for error in away:
            raise error
        return write()

    monkeypatch.setattr(database, "write", back_soon)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    pump._register()
    pump.round()
    with database.write() as unit:
        assert gradings.renew(unit, {grading_id: claim.token}, lease_s=30) == {grading_id}


def test_that_the_broker_lost_its_data_is_remembered_until_it_is_acted_on(
    pump: Pump,
    database: Database,
    redis_server: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store(database, 1)
    assert pump.round() == 1
    redis_server.flush()
    with monkeypatch.context() as patch:

        def away(_: Any) -> None:
            raise UnavailableError("the database did not answer")

        patch.setattr(publishing, "unpublish", away)
        with pytest.raises(UnavailableError):
            pump.round()
    assert pump.round() == 1
