"""Pruning: what is old goes with all that hangs on it, and nothing else does."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from grader_service.api.body import Limits
from grader_service.errors import NotFoundError
from grader_service.grading.prune import GRACE_S, Pruned, prune
from grader_service.grading.service import Service
from grader_service.providers.stub import StubModel
from grader_service.records.canonical import digest
from grader_service.storage import gradings, trials
from grader_service.storage.retention import Rows
from tests.support.in_process import InProcess, in_process
from tests.support.judges import judge_at

DAY = 86_400.0
NOTHING = Pruned(Rows(), 0, 0)


@pytest.fixture
def model() -> Iterator[StubModel]:
    with StubModel(script=[{"match": {}, "replies": [{"verdict": "success"}]}]) as model:
        yield model


@pytest.fixture
def app(tmp_path: Path, model: StubModel) -> Iterator[InProcess]:
    with in_process(tmp_path, judge_at(model.url), Limits()) as app:
        yield app


@pytest.fixture
def service(app: InProcess) -> Service:
    service: Service = app.api.app.state.service  # type: ignore[attr-defined]
    return service


@pytest.fixture
def frame(sample_trials: Path) -> bytes:
    return (sample_trials / "pad-01" / "final_front.jpg").read_bytes()


@pytest.fixture
def other_frame(sample_trials: Path) -> bytes:
    return (sample_trials / "pad-02" / "final_front.jpg").read_bytes()


def submit(app: InProcess, frame: bytes, *, run: str = "r", scene: str = "s") -> str:
    trial = {
        "kind": "robot",
        "run": run,
        "scene": {"id": scene, "instruction": f"Do {scene}."},
        "frames": [{"camera": "front", "phase": "last", "part": "f0"}],
    }
    return str(app.submit(trial, {"f0": frame}).json()["id"])


def age(service: Service, *trial_ids: str, by_s: float = 40 * DAY) -> None:
    """Make trials, and all blobs that are there now, older."""
    with service.database.write() as unit:
        for trial_id in trial_ids:
            for statement in (
                "UPDATE trials SET created_at = created_at - ? WHERE id = ?",
                "UPDATE gradings SET done_at = done_at - ? WHERE trial_id = ?",
                "UPDATE verdicts SET at = at - ? WHERE trial_id = ?",
            ):
                unit.connection.exec_driver_sql(statement, (by_s, trial_id))
    for path in Path(service.blobs.url).rglob("*"):
        if path.is_file():
            then = path.stat().st_mtime - by_s
            os.utime(path, (then, then))


def blobs_of(service: Service) -> set[str]:
    return {blob.sha256 for blob in service.blobs.list()}


def prune_30d(service: Service, **how: Any) -> Pruned:
    return prune(service, older_than_s=30 * DAY, **how)


def test_an_old_trial_goes_with_its_verdicts_and_the_blobs_that_only_it_had(
    app: InProcess, service: Service, frame: bytes, other_frame: bytes
) -> None:
    old = submit(app, frame, scene="old")
    shared = submit(app, other_frame, scene="with a shared frame")
    app.grade()
    age(service, old, shared)
    young = submit(app, other_frame, scene="young")
    app.grade()
    pruned = prune_30d(service)
    assert pruned.rows == Rows(trials=2, gradings=2, verdicts=2)
    # Two records and one frame.
    assert pruned.blobs == 3
    assert pruned.bytes > len(frame)
    for gone in (old, shared):
        assert app.api.get(f"/v1/trials/{gone}").status_code == 404
    with pytest.raises(NotFoundError):
        service.blobs.get(digest(frame))
    assert app.trial(young)["verdict"] == "success"
    assert service.blobs.get(digest(other_frame)) == other_frame
    assert prune_30d(service) == NOTHING


def test_a_dry_run_says_the_same_and_deletes_nothing(
    app: InProcess, service: Service, frame: bytes
) -> None:
    old = submit(app, frame)
    app.grade()
    age(service, old)
    before = blobs_of(service)
    announced = prune_30d(service, dry_run=True)
    assert blobs_of(service) == before
    assert app.trial(old)["verdict"] == "success"
    assert prune_30d(service) == announced != NOTHING


@pytest.mark.parametrize("state", ["queued", "running", "queued again"])
def test_an_unfinished_trial_stays_however_old_it_is(
    app: InProcess, service: Service, frame: bytes, state: str
) -> None:
    trial_id = submit(app, frame)
    with service.database.write() as unit:
        [grading_id] = [gradings.latest_of(unit, [trial_id])[trial_id].id]
        if state != "queued":
            assert gradings.claim(unit, grading_id, owner="w", lease_s=1e9)
        if state == "queued again":
            gradings.cancel(unit, [grading_id])
            gradings.retry(unit, [trial_id])
    age(service, trial_id)
    assert prune_30d(service) == NOTHING
    assert app.trial(trial_id)["state"] in state


def test_a_cancelled_trial_goes_when_it_is_old(
    app: InProcess, service: Service, frame: bytes
) -> None:
    trial_id = submit(app, frame)
    app.api.post("/v1/queue/cancel", json={"trials": [trial_id]})
    assert prune_30d(service) == NOTHING
    age(service, trial_id)
    assert prune_30d(service).rows == Rows(trials=1, gradings=1)


def test_an_old_trial_that_somebody_spoke_about_lately_stays(
    app: InProcess, service: Service, frame: bytes
) -> None:
    trial_id = submit(app, frame)
    app.grade()
    age(service, trial_id)
    said = {"verdict": "failure", "reviewer": "ann"}
    assert app.api.post(f"/v1/trials/{trial_id}/verdicts", json=said).status_code == 201
    assert prune_30d(service) == NOTHING


def test_only_the_run_that_is_named_is_pruned(
    app: InProcess, service: Service, frame: bytes
) -> None:
    ids = [submit(app, frame, run=run) for run in ("r1", "r2")]
    app.grade()
    age(service, *ids)
    assert prune_30d(service, run="r2").rows.trials == 1
    assert app.trial(ids[0])["run"] == "r1"


def test_many_pages_of_trials_are_pruned_in_one_go(
    app: InProcess, service: Service, frame: bytes
) -> None:
    sample = submit(app, frame)
    app.grade()
    with service.database.write() as unit:
        row = trials.by_id(unit, sample)
        names = [name for name in trials.NewTrial.__slots__ if name != "client_id"]
        new = trials.NewTrial(client_id=None, **{name: getattr(row, name) for name in names})
        ids = [trials.add(unit, new) for _ in range(450)]
    age(service, *ids)
    assert prune_30d(service).rows.trials == 450
    assert app.trial(sample)["verdict"] == "success"


def test_a_blob_whose_trial_is_not_stored_yet_survives(service: Service) -> None:
    fresh = service.blobs.put(b"uploaded a moment ago")
    left_behind = service.blobs.put(b"of a submission that broke off")
    path = Path(service.blobs.url) / left_behind
    then = path.stat().st_mtime - GRACE_S - 60
    os.utime(path, (then, then))
    assert prune_30d(service) == Pruned(Rows(), 1, len(b"of a submission that broke off"))
    assert blobs_of(service) == {fresh}


def test_an_old_blob_that_is_submitted_again_is_as_young_as_a_new_one(
    app: InProcess, service: Service, frame: bytes
) -> None:
    old = submit(app, frame)
    app.grade()
    age(service, old)
    again = service.blobs.put(frame)
    prune_30d(service)
    assert service.blobs.get(again) == frame


def test_pruning_while_trials_are_submitted_loses_none_of_their_blobs(
    app: InProcess, service: Service, frame: bytes
) -> None:
    stop = threading.Event()

    def keep_pruning() -> None:
        while not stop.is_set():
            prune_30d(service)

    with ThreadPoolExecutor(1) as pool:
        pruning = pool.submit(keep_pruning)
        for number in range(12):
            # The same frame each time: the prune finds it without a trial again and again.
            trial_id = submit(app, frame, scene=f"scene {number}")
            app.grade()
            assert app.trial(trial_id)["verdict"] == "success"
            age(service, trial_id)
        stop.set()
        pruning.result()


def test_files_that_are_no_blobs_are_left_alone(service: Service) -> None:
    stranger = Path(service.blobs.url) / "README"
    stranger.write_text("put here by somebody")
    os.utime(stranger, (0, 0))
    assert prune_30d(service) == NOTHING
    assert stranger.exists()
