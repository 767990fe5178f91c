"""The pump, over a real Redis: what is due is published, what the broker loses once more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from redis import Redis

from grader_service.errors import UnavailableError
from grader_service.grading.celery_queue import CeleryQueue, key_prefix
from grader_service.grading.leases import Leases
from grader_service.grading.pump import Pump
from grader_service.storage import gradings, trials, verdicts, workers
from grader_service.storage.database import Database
from grader_service.storage.tables import gradings as table
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
        node="w1",
        boot_id="b1",
        judges=["j"],
        concurrency=2,
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
        assert gradings.publish_due(unit, judges=["j"], limit=9, stale_s=30) == ids


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
