"""Whoever follows a run is given each end once, those that come to light late too."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import update

from grader_service.grading.judges import Judges
from grader_service.grading.progress import Follower
from grader_service.grading.service import Service
from grader_service.storage import gradings, trials
from grader_service.storage.blobs import BlobStore
from grader_service.storage.database import Database
from grader_service.storage.progress import Position
from grader_service.storage.tables import gradings as grading_rows

RUBRIC = "r" * 64


@pytest.fixture
def service(database: Database, tmp_path: Path) -> Service:
    return Service(database, BlobStore(str(tmp_path / "blobs")), Judges({}, None))


def end(service: Service, *times: float) -> list[str]:
    """Store trials that ended at these times; return their ids."""
    ids = []
    with service.database.write() as unit:
        trials.put_rubric(unit, digest=RUBRIC, rubric_id="x", body={})
        for at in times:
            new = trials.NewTrial(
                service.tenant, "r", None, "c", "robot", "s", 0, None, RUBRIC, "d", [], []
            )
            trial_id = trials.add(unit, new)
            gradings.record_adopted(
                unit,
                trial_id=trial_id,
                tenant=service.tenant,
                run="r",
                rubric_digest=RUBRIC,
                verdict="success",
            )
            unit.execute(
                update(grading_rows).where(grading_rows.c.trial_id == trial_id).values(done_at=at)
            )
            ids.append(trial_id)
    return ids


def drain(follower: Follower) -> list[tuple[Position, str]]:
    found: list[tuple[Position, str]] = []
    more = True
    while more:
        batch, more = follower.batch()
        found += [(ended.position, ended.trial.id) for ended in batch]
    return found


def ids(found: Sequence[tuple[Position, str]]) -> list[str]:
    return [trial_id for _, trial_id in found]


def test_more_ends_than_a_batch_holds_come_whole_in_order_and_once(service: Service) -> None:
    added = end(service, *(1000 + number // 3 for number in range(450)))
    follower = Follower(service, "r")
    assert sorted(ids(drain(follower))) == sorted(added)
    assert drain(follower) == []


def test_an_end_that_comes_to_light_after_later_ones_is_not_left_out(service: Service) -> None:
    follower = Follower(service, "r")
    first = end(service, 1000.0, 1002.0)
    assert ids(drain(follower)) == first
    late = end(service, 999.0, 1001.0)
    assert ids(drain(follower)) == late
    assert drain(follower) == []


def test_the_position_of_an_end_is_where_another_follower_goes_on(service: Service) -> None:
    end(service, 1000.0)
    last = end(service, 2000.0)
    position = drain(Follower(service, "r"))[-1][0]
    new = end(service, 2000.5, 3000.0)
    assert ids(drain(Follower(service, "r", position))) == last + new


def test_a_trial_that_is_pruned_while_its_end_is_read_is_passed_over(service: Service) -> None:
    gone, stays = end(service, 1.0, 2.0)
    # As between the two reads: a connection that leaves what refers to the trial.
    with closing(sqlite3.connect(service.database.url.removeprefix("sqlite:///"))) as raw, raw:
        raw.execute("DELETE FROM trials WHERE id = ?", (gone,))
    assert ids(drain(Follower(service, "r"))) == [stays]


def test_an_end_that_comes_late_is_not_left_out_where_the_last_batch_was_just_full(
    service: Service,
) -> None:
    follower = Follower(service, "r")
    end(service, *(1000 + number / 1000 for number in range(200)))
    drain(follower)
    late = end(service, 1000.15)
    assert ids(drain(follower)) == late
