"""Whole records on disk, beside the harness' own log."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import inspect_robots
import numpy as np
import pytest
from inspect_robots.errors import PolicyError
from inspect_robots.logging.json_log import JsonLogSink
from inspect_robots.registry import resolve
from inspect_robots.scene import Scene, Target

from grader_service.client.disk import read_saved
from grader_service.client.http import Client
from grader_service.plugins.harness.sink import AutograderSink
from grader_service.scoring import resolve_scorer, value_to_float
from tests.plugins.harness.rig import Rig, bench, saved_log
from tests.support.stack import Stack
from tests.support.submitting import submit_all


def evaluate(
    tmp_path: Path, task: Any, *, policy: Any = "noop", rig: Any = None, **more: Any
) -> Any:
    """Evaluate with both sinks; return the log."""
    sinks: list[Any] = [
        JsonLogSink(str(tmp_path / "logs")),
        AutograderSink(tmp_path / "records", task=task),
    ]
    inspect_robots.eval(
        task, policy, rig or Rig(), sinks=sinks, log_dir=str(tmp_path / "logs"), **more
    )
    return saved_log(tmp_path / "logs")


def folders(tmp_path: Path) -> list[Path]:
    return sorted(path for path in (tmp_path / "records").glob("*/*") if path.is_dir())


@pytest.mark.parametrize("store_frames", [False, True])
def test_every_scorer_gives_on_the_saved_records_what_it_gave_in_the_run(
    tmp_path: Path, store_frames: bool
) -> None:
    names = ["operator", "episode_length", "success_at_end", "min_distance_to_goal"]
    task = bench(("Lift the cup", "Miss the cup"), epochs=3, scorers=names)
    log = evaluate(tmp_path, task, store_frames=store_frames)
    found = folders(tmp_path)
    assert len(found) == 6
    scores: dict[str, dict[int, dict[str, float | None]]] = {}
    for folder in found:
        saved = read_saved(folder).saved
        scores.setdefault(saved.scene.id, {})[saved.record.epoch] = {
            name: value_to_float(resolve_scorer(name)(saved.record, saved.scene.target).value)
            for name in names
        }
        assert len(saved.frames) == 4
        assert saved.planned.reducer == "mean"
        assert (saved.planned.epochs, saved.planned.scorers) == (3, tuple(names))
    for sample in log["samples"]:
        assert [scores[sample["scene_id"]][epoch] for epoch in range(3)] == sample["epochs"]


def test_a_trial_that_broke_off_is_saved_with_its_error_and_its_scene(tmp_path: Path) -> None:
    class Failing:
        """A policy that fails at its second step."""

        def __init__(self) -> None:
            self._inner = resolve("policy", "noop")
            self.info, self.config = self._inner.info, self._inner.config
            self._asked = 0

        def reset(self, scene: Any) -> None:
            self._inner.reset(scene)

        def act(self, observation: Any) -> Any:
            self._asked += 1
            if self._asked == 2:
                raise PolicyError("out of ideas")
            return self._inner.act(observation)

    task = bench(("Lift the cup",), target=Target("cup", {"z": 1.0}), init_seed=5)
    log = evaluate(tmp_path, task, policy=Failing())
    assert log["results"]["errored_trials"] == 1
    [folder] = folders(tmp_path)
    saved = read_saved(folder).saved
    assert saved.record.status == "error"
    assert saved.record.error is not None
    assert "out of ideas" in saved.record.error
    assert saved.scene.target is not None
    assert (saved.scene.target.kind, saved.scene.target.spec) == ("cup", {"z": 1.0})
    assert saved.scene.init_seed == 5


def test_evaluations_and_scenes_of_like_names_get_folders_of_their_own(tmp_path: Path) -> None:
    task = bench(("Lift the cup",))
    task.scenes = [Scene(name, "Lift the cup") for name in ("a/b", "a-b", "a b", "../x", ".")]
    sink = AutograderSink(tmp_path / "records")
    for _ in range(2):
        inspect_robots.eval(task, "noop", Rig(), sinks=[sink], store_actions=False)
    found = folders(tmp_path)
    assert len(found) == 10
    assert {read_saved(folder).saved.scene.id for folder in found} == {
        "a/b", "a-b", "a b", "../x", "."
    }  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["records"]


def test_what_cant_be_saved_is_said_and_the_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = evaluate(tmp_path, bench(("Lift the cup",)), rig=Rig(extra={"camera": object()}))
    assert log["status"] == "success"
    assert "scene-0-e0 is not saved: " in capsys.readouterr().err
    assert list((tmp_path / "records").rglob("record.json")) == []
    assert list((tmp_path / "records").rglob("*.tmp")) == []


def test_a_frame_that_is_none_is_left_out_of_a_saved_trial(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Deep(Rig):
        def _see(self, observation: Any) -> Any:
            images = dict(super()._see(observation).images)
            images["depth"] = np.zeros((128, 128, 1), np.float32)
            return replace(observation, images=images)

    evaluate(tmp_path, bench(("Lift the cup",)), rig=Deep(cameras=("front",)))
    [folder] = folders(tmp_path)
    assert [ref.camera for ref in read_saved(folder).saved.frames] == ["front", "front"]
    assert "camera 'depth' is of float32" in capsys.readouterr().err


def test_saved_trials_can_be_submitted(stack: Stack, tmp_path: Path) -> None:
    evaluate(tmp_path, bench(("Lift the cup", "Miss the cup")))
    with Client(stack.url) as client:
        ids = submit_all(client, tmp_path / "records", run="from-records")
        assert stack.wait_for("from-records")["graded"] == {"n": 2, "success": 1, "failure": 1}
        record = json.loads(client.record(ids[0]))
    assert record["record"]["operator_judgement"] == "success"
    assert len(record["frames"]) == 4
