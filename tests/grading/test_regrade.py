"""Another round of grading, on SQLite and PostgreSQL."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from grader_service.errors import ConflictError, NotFoundError
from grader_service.grading.judges import Judges
from grader_service.grading.regrade import QueuedGrading, regrade
from grader_service.grading.service import Service
from grader_service.judging.judge import JudgeConfig
from grader_service.judging.rubric import library_rubric
from grader_service.providers.base import ProviderConfig
from grader_service.storage import gradings, trials
from grader_service.storage.blobs import BlobStore
from grader_service.storage.database import Database
from grader_service.storage.migrations import upgrade
from tests.support.servers import new_postgres_database


@pytest.fixture(params=["sqlite", "postgresql"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    """A service with two judges."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'test.db'}"
    else:
        url = new_postgres_database(request.getfixturevalue("postgres_url"))
    database = Database(url)
    upgrade(database)
    provider = ProviderConfig(kind="openai", model="m", base_url="http://127.0.0.1:9/v1")
    judges = {name: JudgeConfig(name, provider, max_tokens=n) for n, name in enumerate("ab", 99)}
    yield Service(database, BlobStore("memory:"), Judges(judges, "a"))
    database.close()


@pytest.fixture
def trial_id(service: Service) -> str:
    """A trial whose round 0 has ended."""
    rubric = library_rubric("robot/task-done")
    with service.database.write() as unit:
        trials.put_rubric(unit, digest=rubric.digest, rubric_id=rubric.id, body=rubric.to_dict())
        new = trials.NewTrial(
            *("default", "r", None, "c", "robot", "s", 0, "Go."), rubric.digest, "d", [], []
        )
        trial_id = trials.add(unit, new)
        gradings.record_adopted(
            unit,
            trial_id=trial_id,
            tenant="default",
            run="r",
            rubric_digest=rubric.digest,
            verdict="success",
        )
    return trial_id


class Meeting(Judges):
    """Judges whose choice waits a second for another request to get as far."""

    def resolve(self, name: str | None) -> JudgeConfig | None:
        with contextlib.suppress(threading.BrokenBarrierError):
            _BOTH.wait(1)
        return super().resolve(name)


_BOTH = threading.Barrier(2)


def test_of_two_requests_at_once_one_gets_the_next_round(service: Service, trial_id: str) -> None:
    _BOTH.reset()
    meeting = replace(service, judges=Meeting(service.judges.by_name, "a"))

    def ask(judge: str) -> QueuedGrading | None:
        try:
            return regrade(meeting, trial_id, judge=judge)
        except ConflictError:
            return None

    with ThreadPoolExecutor(2) as pool:
        queued = [one for one in pool.map(ask, "ab") if one is not None]
    assert [one.round for one in queued] == [1]


def test_a_round_is_graded_by_the_judge_of_the_round_before(
    service: Service, trial_id: str
) -> None:
    assert regrade(service, trial_id, judge="b").judge == "b"
    with service.database.write() as unit:
        newest = gradings.latest_of(unit, [trial_id])[trial_id]
        gradings.cancel(unit, [newest.id])
    again = regrade(service, trial_id)
    assert (again.judge, again.round) == ("b", 2)


def test_without_a_judge_the_round_waits_for_one(service: Service, trial_id: str) -> None:
    bare = Service(service.database, service.blobs, Judges({}, None))
    assert regrade(bare, trial_id).judge is None


def test_no_other_tenant_can_ask_for_a_round(service: Service, trial_id: str) -> None:
    other = Service(service.database, service.blobs, service.judges, tenant="other")
    with pytest.raises(NotFoundError):
        regrade(other, trial_id)
