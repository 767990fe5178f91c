"""The contract of a broker: the embedded Valkey, the oldest Redis that Celery takes, fakeredis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader_service.errors import UnavailableError
from grader_service.grading.celery_queue import CeleryQueue
from grader_service.providers.stub import StubModel
from tests.support.judges import judge_at
from tests.support.servers import BROKERS, RedisServer, start_redis
from tests.support.stack import running
from tests.support.submitting import submit_all


@pytest.fixture(params=BROKERS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisServer]:
    """A broker of its own, which the test may stop."""
    with start_redis(tmp_path, request.param) as server:
        yield server


@pytest.fixture
def queue(server: RedisServer) -> Iterator[CeleryQueue]:
    queue = CeleryQueue(server.url, "one:")
    yield queue
    queue.close()


def test_what_was_published_waits_until_somebody_takes_it(queue: CeleryQueue) -> None:
    assert queue.depth() == 0
    queue.publish(["a", "b", "c"])
    queue.publish([])
    assert queue.depth() == 3


def test_services_that_share_a_broker_do_not_see_each_other(
    server: RedisServer, queue: CeleryQueue
) -> None:
    other = CeleryQueue(server.url, "two:")
    assert queue.lost_data()
    assert other.lost_data()
    queue.publish(["a"])
    assert (queue.depth(), other.depth()) == (1, 0)
    other.close()


def test_one_of_those_who_ask_is_told_that_the_broker_came_up_empty(
    server: RedisServer, queue: CeleryQueue
) -> None:
    another_worker = CeleryQueue(server.url, "one:")
    for _ in range(2):
        assert [queue.lost_data(), another_worker.lost_data(), queue.lost_data()].count(True) == 1
        queue.publish(["a"])
        server.stop()
        server.start()
    assert queue.depth() == 0
    another_worker.close()


def test_a_broker_that_is_away_is_unavailable_until_it_is_back(
    server: RedisServer, queue: CeleryQueue
) -> None:
    queue.publish(["a"])
    server.stop()
    for ask in (lambda: queue.publish(["b"]), queue.depth, queue.lost_data):
        with pytest.raises(UnavailableError, match="the broker did not answer"):
            ask()
    server.start()
    assert queue.lost_data()
    queue.publish(["c"])
    assert queue.depth() == 1


def test_a_worker_grades_every_trial_once_over_it(
    server: RedisServer, tmp_path: Path, sample_trials: Path
) -> None:
    with StubModel() as model:
        judges = {"m": judge_at(model.url)}
        with running(tmp_path / "home", server.url, judges) as stack, stack.client() as client:
            ids = submit_all(client, sample_trials, run="r")
            summary = stack.wait_for("r")
            verdicts = Counter(len(client.verdicts(trial_id)) for trial_id in ids)
        calls = len(model.log)
    assert summary["graded"]["n"] + summary["abstained"]["n"] == 24
    assert verdicts == {1: 24}
    assert calls == 24
