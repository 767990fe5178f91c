"""Snapshots of live records: what of them is kept, and that nothing holds on to the rest."""

from __future__ import annotations

import gc
import io
import json
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inspect_robots.approver import AutoApprover
from inspect_robots.controller import DefaultController
from inspect_robots.frames import FrameRef
from inspect_robots.logging.sink import NullSink
from inspect_robots.registry import resolve
from inspect_robots.rollout import TrialRecord, rollout
from inspect_robots.scene import Scene, Target
from inspect_robots.types import Observation

from grader_service.errors import FrameError
from grader_service.plugins.harness.snapshot import Frame, Packed, pack, take_snapshot
from grader_service.records.saved import SavedTrial, load_trial, save_trial
from tests.plugins.harness.rig import Rig

SCENE = Scene("s", "Lift the cup", target=Target("cup", {"z": 1.0}), metadata={"day": 3})


def record_of(rig: Rig | None = None, *, steps: int = 3, scene: Scene = SCENE) -> TrialRecord:
    """Return the record of a real rollout."""
    record: TrialRecord = rollout(
        resolve("policy", "noop"),
        rig or Rig(),
        scene,
        max_steps=steps,
        seed=1,
        epoch=2,
        controller=DefaultController(None),
        approver=AutoApprover(),
        sink=NullSink(),
    )
    return record


def packed(record: TrialRecord, scene: Scene = SCENE) -> Packed:
    return pack(take_snapshot(record, scene, "id"), run="r", rubric=None, judge=None)


def saved(done: Packed) -> SavedTrial:
    """Return the record in a submission."""
    files = {"record.json": done.parts["record"], **done.parts}
    return load_trial(files.__getitem__, check=True)


def pictures(done: Packed) -> dict[tuple[str, str], Any]:
    """Return the images in a submission by phase and camera."""
    return {
        (frame["phase"], frame["camera"]): np.load(io.BytesIO(done.parts[frame["part"]]))
        for frame in done.trial["frames"]
    }


def test_the_record_that_is_sent_is_what_saving_the_live_one_gives_frames_apart() -> None:
    record = record_of(Rig(extra={"force": 0.5}))
    record.metadata["policy"] = {"seen": [1, 2]}
    done = packed(record)
    whole = save_trial(record, SCENE, instruction_used="Lift the cup")
    assert done.parts["record"] == whole["record.json"]
    assert {name: done.parts[name] for name in whole if name != "record.json"} == {
        name: data for name, data in whole.items() if name != "record.json"
    }
    assert done.left_out == []
    assert json.loads(whole["record.json"])["steps"]["chained"]


def test_first_last_and_parked_frames_are_copied_sorted_and_at_most_four_each() -> None:
    record = record_of(Rig(cameras=("e", "d", "c", "b", "a")))
    record.parked_observation = Observation(images={"z": np.full((128, 128, 3), 9, np.uint8)})
    first = record.steps[0].observation.images["a"].copy()
    snapshot = take_snapshot(record, SCENE, "id")
    for step in record.steps:
        for image in (*step.observation.images.values(), *step.result.observation.images.values()):
            image[:] = 0
    shown = pictures(pack(snapshot, run="r", rubric=None, judge=None))
    assert [*shown] == [
        *(("first", name) for name in "abcd"),
        *(("last", name) for name in "abcd"),
        ("parked", "z"),
    ]
    assert np.array_equal(shown["first", "a"], first)
    assert shown["last", "b"].any()


def test_a_snapshot_keeps_none_of_the_other_images_alive() -> None:
    record = record_of(steps=5)
    images = [
        weakref.ref(image)
        for step in record.steps
        for image in (*step.observation.images.values(), *step.result.observation.images.values())
    ]
    snapshot = take_snapshot(record, SCENE, "id")
    del record
    gc.collect()
    assert not any(ref() is not None for ref in images)
    assert len(snapshot.record.steps) == 5
    assert snapshot.record.steps[4].result.info["distance"] > 0


def test_what_the_harness_adds_to_the_record_later_is_not_sent() -> None:
    record = record_of()
    snapshot = take_snapshot(record, SCENE, "id")
    record.metadata["actions"] = "actions/x.jsonl"
    record.events.clear()
    loaded = saved(pack(snapshot, run="r", rubric=None, judge=None))
    assert loaded.record.metadata == {}
    assert len(loaded.record.events) > 0


@pytest.mark.parametrize(
    ("told", "used"),
    [("Fold the dish towel", "Fold the dish towel"), (" ", "Lift the cup"), (None, "Lift the cup")],
)
def test_the_instruction_is_what_the_policy_got_else_the_scenes(told: Any, used: str) -> None:
    record = record_of()
    object.__setattr__(record.steps[0].observation, "instruction", told)
    done = packed(record)
    assert done.trial["scene"]["instruction"] == used
    assert saved(done).instruction_used == used


def test_a_trial_without_steps_and_without_words_is_sent_all_the_same() -> None:
    done = packed(TrialRecord("s", 0, None), Scene("s", ""))
    assert done.trial["frames"] == []
    assert done.trial["scene"]["instruction"]
    assert saved(done).scene.instruction == ""


@pytest.mark.parametrize(
    ("image", "why"),
    [
        (np.zeros((128, 128, 3), np.float32), "is of float32, not uint8"),
        (np.zeros((128, 128, 3), np.uint16), "is of uint16, not uint8"),
        (np.zeros((128, 128, 2), np.uint8), r"has the shape \(128, 128, 2\)"),
        (np.zeros((1, 128, 128, 3), np.uint8), "which is no picture's"),
        (np.zeros((0, 128, 3), np.uint8), "which is no picture's"),
        (np.zeros(128, np.uint8), "which is no picture's"),
        (np.zeros((4, 5000, 3), np.uint8), "too thin for a judge"),
    ],
)
def test_what_is_no_picture_is_left_out_and_named(image: Any, why: str) -> None:
    with pytest.raises(FrameError, match=f"the last frame of camera 'c'.*{why}"):
        Frame("last", "c", image).load()
    record = record_of(Rig(cameras=("c", "d")))
    last: Any = record.steps[-1].result.observation.images
    last["c"] = image
    done = packed(record)
    assert [*pictures(done)] == [("first", "c"), ("first", "d"), ("last", "d")]
    [left_out] = done.left_out
    assert left_out.startswith("the last frame of camera 'c'")


@pytest.mark.parametrize("shape", [(200, 300), (200, 300, 1), (200, 300, 3), (200, 300, 4)])
def test_grey_colour_and_transparent_pictures_are_sent_as_they_are(shape: tuple[int, ...]) -> None:
    image = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    assert np.array_equal(Frame("first", "c", image).load(), image)


def test_tiny_pictures_of_simulators_are_enlarged_pixel_by_pixel() -> None:
    image = np.arange(24 * 32 * 3, dtype=np.uint8).reshape(24, 32, 3)
    large = Frame("first", "c", image).load()
    assert large.shape == (144, 192, 3)
    assert np.array_equal(large[::6, ::6], image)
    assert np.array_equal(large[5::6, 5::6], image)


def test_stored_frames_are_read_when_they_are_packed_and_never_unpickled(tmp_path: Path) -> None:
    good, hostile = tmp_path / "good.npy", tmp_path / "hostile.npy"
    np.save(good, np.full((128, 128, 3), 7, np.uint8))
    np.save(hostile, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    record = record_of(Rig(cameras=()), steps=1)
    refs = {
        "a": FrameRef("a", 0, str(good)),
        "b": FrameRef("b", 0, str(hostile)),
        "c": FrameRef("c", 0, str(tmp_path / "missing.npy")),
    }
    object.__setattr__(record.steps[0], "image_refs", refs)
    snapshot = take_snapshot(record, SCENE, "id")
    assert {frame.image for frame in snapshot.frames} == {Path(ref.path) for ref in refs.values()}
    done = pack(snapshot, run="r", rubric=None, judge=None)
    assert [*pictures(done)] == [("first", "a")]
    assert len(done.left_out) == 2
    assert "allow_pickle" in done.left_out[0]


def test_a_record_that_cant_be_saved_exactly_is_judged_without_its_steps() -> None:
    record = record_of(Rig(extra={"camera": object()}))
    record.terminated, record.termination_reason = True, "operator_end"
    scene = Scene("s", "Lift the cup", metadata={"rubric": "Is it lifted?", "odd": object()})
    done = packed(record, scene)
    loaded = saved(done)
    assert "can't be saved exactly" in done.left_out[0]
    assert loaded.record.steps == []
    assert (loaded.record.terminated, loaded.record.termination_reason) == (True, "operator_end")
    assert loaded.scene.metadata == {"rubric": "Is it lifted?"}
    assert loaded.instruction_used == "Lift the cup"
    assert len(done.trial["frames"]) == 4


def test_lone_surrogates_in_names_do_not_keep_a_trial_from_the_service() -> None:
    scene = Scene("s\ud800", "Lift \udfff")
    record = record_of(Rig(cameras=("c\ud800",)), scene=scene)
    done = packed(record, scene)
    json.dumps(done.trial, ensure_ascii=False).encode()
    assert done.trial["scene"]["id"] == saved(done).scene.id


def test_a_submission_names_the_run_the_rubric_the_judge_and_the_trial() -> None:
    trial = pack(
        take_snapshot(record_of(), SCENE, "id"), run="r", rubric="Is it lifted?", judge="careful"
    ).trial
    assert trial["kind"] == "robot"
    assert (trial["run"], trial["client_id"]) == ("r", "id")
    assert (trial["rubric"], trial["judge"]) == ("Is it lifted?", "careful")
    assert (trial["scene"]["id"], trial["epoch"]) == ("s", 2)
