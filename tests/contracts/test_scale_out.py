"""Two machines' worth of processes on PostgreSQL, S3 and Redis behave as one service."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from sqlalchemy import select

from grader_service.client.http import Client
from grader_service.providers.stub import StubModel
from grader_service.storage.database import Database
from grader_service.storage.tables import gradings
from tests.contracts.trials import answer_after, robot_trial
from tests.support.judges import judge_at
from tests.support.servers import S3Server, new_postgres_database, start_redis
from tests.support.stack import Stack, wait_until

TRIALS = 48
CONCURRENCY = 4


@dataclass(frozen=True)
class Machines:
    """Two machines that share a database, a broker, a bucket and a secret, and nothing else."""

    one: Stack
    two: Stack
    model: StubModel
    database_url: str

    def owners(self) -> set[str]:
        """Return the workers that are grading right now."""
        database = Database(self.database_url)
        with database.read() as unit:
            running = select(gradings.c.owner).where(gradings.c.state == "running").distinct()
            owners = set(unit.execute(running).scalars())
        database.close()
        return owners


@pytest.fixture(scope="module")
def machines(
    tmp_path_factory: pytest.TempPathFactory, postgres_url: str, s3_server: S3Server
) -> Iterator[Machines]:
    """Each machine runs an API and a worker, `w-one` and `w-two`."""
    folder = tmp_path_factory.mktemp("machines")
    database_url = new_postgres_database(postgres_url)
    settings = {
        **s3_server.environment,
        "AUTOGRADER_DATABASE_URL": database_url,
        "AUTOGRADER_BLOBS_URL": f"s3://{s3_server.make_bucket()}/blobs",
        "AUTOGRADER_SECRET": "the same on every machine",
        "AUTOGRADER_LEASE_S": "5",
        "AUTOGRADER_STALE_S": "3",
    }
    with start_redis(folder, "redis-server") as redis, StubModel() as model:
        judges = {"m": judge_at(model.url)}
        one, two = (Stack(folder / name, redis.url, judges, settings) for name in ("one", "two"))
        try:
            one.migrate()
            for stack, worker in ((one, "w-one"), (two, "w-two")):
                stack.start_api()
                stack.start_worker(worker, concurrency=CONCURRENCY)
            yield Machines(one, two, model, database_url)
        finally:
            one.close()
            two.close()


def test_two_machines_grade_each_trial_once_though_one_of_the_workers_dies(
    machines: Machines,
) -> None:
    before = len(machines.model.log)
    answer_after(machines.model, 5.0)
    with machines.one.client() as one, machines.two.client() as two:
        ids = [(one, two)[n % 2].submit(*robot_trial(n))["id"] for n in range(TRIALS)]
        wait_until(
            lambda: machines.owners() == {"w-one", "w-two"}, what="both workers to share the run"
        )
        answer_after(machines.model, 0.3)
        machines.two.wait_for("r", done=TRIALS // 4)
        machines.one.kill("w-one")
        summary = machines.two.wait_for("r")
        assert summary["trials"] == summary["graded"]["n"] == TRIALS
        assert one.run("r") == summary
        for trial_id in ids:
            [verdict] = one.verdicts(trial_id)
            assert two.verdicts(trial_id) == [verdict]
            assert one.scorecard(trial_id) == two.scorecard(trial_id)
    calls = Counter(request["key"] for request in machines.model.log[before:])
    assert len(calls) == TRIALS
    # Only what the dead worker had in flight is asked again.
    assert sum(calls.values()) <= TRIALS + CONCURRENCY
    # Whatever they keep, they share.
    assert not any(stack.home.exists() for stack in (machines.one, machines.two))


def test_a_trial_that_is_sent_to_two_apis_at_once_is_one_trial(machines: Machines) -> None:
    before = len(machines.model.log)
    numbers = range(1000, 1012)
    with machines.one.client() as one, machines.two.client() as two, ThreadPoolExecutor(8) as pool:

        def submit(sent: tuple[Client, int]) -> str:
            client, number = sent
            return str(client.submit(*robot_trial(number, run="twice"))["id"])

        to_one = pool.map(submit, [(one, number) for number in numbers])
        to_two = pool.map(submit, [(two, number) for number in numbers])
        assert list(to_one) == list(to_two)
        assert machines.two.wait_for("twice")["trials"] == len(numbers)
    assert len(machines.model.log) - before == len(numbers)
