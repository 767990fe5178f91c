"""Runs of the harness that were made without this project are submitted, and harvested, too."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inspect_robots import Scene, Task
from inspect_robots import eval as run_eval
from inspect_robots.frames import FrameStore

from grader_service.client.disk import find_inputs
from grader_service.client.harvest.harvest import Wishes, harvest
from grader_service.client.http import Client
from grader_service.client.submissions import Choices, Submission, drafts
from grader_service.errors import AutograderError, InputError
from grader_service.records.saved import SavedTrial, load_trial
from tests.support.harness_logs import (
    FAILURE,
    SUCCESS,
    FaultyPolicy,
    TableGrader,
    Verdicts,
    make_task,
    run,
    verdicts_at,
)

CHOICES = Choices(run="old", rubric="Is it done?")


@pytest.fixture
def client(service_url: str) -> Iterator[Client]:
    with Client(service_url) as client:
        yield client


def stored(folder: Path, *, task: Any = None, frames: bool = True, **options: Any) -> Path:
    """Run a task as somebody did who did not know this project; return the log."""
    task = task or make_task(scenes=2, epochs=2)
    policy = options.pop("policy", None) or FaultyPolicy()
    run_eval(task, policy, "cubepick", log_dir=str(folder), store_frames=frames, **options)
    [log] = folder.glob("*.json")
    return log


def submissions(log: Path, **changes: Any) -> list[Submission]:
    choices = replace(CHOICES, **changes)
    return [draft.build() for found in find_inputs([str(log)]) for draft in drafts(found, choices)]


def loaded(submission: Submission) -> SavedTrial:
    files = {"record.json": submission.parts["record"], **submission.parts}
    return load_trial(files.__getitem__)


def test_a_trial_comes_with_its_first_and_last_frame_and_its_actions(tmp_path: Path) -> None:
    log = stored(tmp_path, policy="noop")
    found = submissions(log)
    assert [one.name for one in found] == ["scene-0-e0", "scene-0-e1", "scene-1-e0", "scene-1-e1"]
    frames = next(tmp_path.glob("frames/*"))
    for one in found:
        first, last = (frames / f"{one.name}_top_{t:06d}.npy" for t in (0, 8))
        assert one.trial["frames"] == [
            {"camera": "top", "phase": "first", "part": "f0"},
            {"camera": "top", "phase": "last", "part": "f1"},
        ]
        assert [one.parts["f0"], one.parts["f1"]] == [first.read_bytes(), last.read_bytes()]
        saved = loaded(one)
        assert (saved.scene.id, saved.scene.instruction) == (one.name[:7], "reach the cube")
        assert [step.t for step in saved.record.steps] == list(range(8))
        assert saved.record.steps[0].action.data.tolist() == [0.0, 0.0]
        assert (saved.record.truncated, saved.record.termination_reason) == (True, "max_steps")


def test_a_real_service_takes_them_once_and_adopts_what_the_embodiment_ended(
    client: Client, tmp_path: Path
) -> None:
    log = stored(tmp_path, task=make_task(scenes=3, epochs=5))
    for _ in range(2):
        for one in submissions(log):
            client.submit(one.trial, one.parts)
    trials = list(client.trials(run="old"))
    assert len(trials) == 15
    reasons = [
        reason
        for sample in json.loads(log.read_text())["samples"]
        for reason in sample["termination_reasons"]
    ]
    adopted = [trial["source"] == "embodiment" for trial in trials]
    assert adopted == [reason == "success" for reason in reasons]
    assert 0 < sum(adopted) < 15


def test_what_the_log_tells_of_people_rubrics_and_metadata_is_in_the_record(tmp_path: Path) -> None:
    log = stored(tmp_path, task=make_task(scenes=1, epochs=2), policy="noop")
    value = json.loads(log.read_text())
    sample = value["samples"][0]
    sample["scene_metadata"] = {"rubric": "Is the cube reached?"}
    sample["operator_judgements"][0] = "y"
    sample["judgement_sources"][0] = "prompt"
    sample["operator_notes"][0] = "slowly"
    sample["operator_messages"][1] = [{"t": 3, "text": "left!", "source": "speaker"}]
    sample["policy_transcripts"][1] = [{"role": "assistant"}]
    log.write_text(json.dumps(value))
    first, second = (loaded(one) for one in submissions(log))
    assert first.scene.metadata == {"rubric": "Is the cube reached?"}
    assert (first.record.operator_judgement, first.record.operator_note) == ("y", "slowly")
    assert first.record.events[-1].data["source"] == "prompt"
    assert second.record.operator_judgement is None
    assert [(event.kind, event.t, event.data["text"]) for event in second.record.events] == [
        ("operator_message", 3, "left!")
    ]
    assert second.record.policy_transcript == [{"role": "assistant"}]
    assert second.record.metadata["actions"].endswith("scene-0-e1.jsonl")


def test_names_that_begin_alike_or_are_no_file_names_keep_their_frames(tmp_path: Path) -> None:
    scenes = ["pad", "pad-e0_b", "tür 1/2"]
    task = Task("t", [Scene(name, "x") for name in scenes], "operator", max_steps=2)
    log = stored(tmp_path, task=task, policy="noop")
    store = FrameStore(str(next(tmp_path.glob("frames/*"))))
    image = np.zeros((2, 2, 3), np.uint8)
    for name in scenes:
        store.put(f"{name}-e0", 0, "wrist_left", image)
    for one, name in zip(submissions(log), scenes, strict=True):
        assert one.trial["scene"]["id"] == name
        listed = [(frame["camera"], frame["phase"]) for frame in one.trial["frames"]]
        # The one frame of a camera is its first.
        assert listed == [("top", "first"), ("top", "last"), ("wrist_left", "first")]


def test_of_many_cameras_the_first_four_by_name_are_sent(tmp_path: Path) -> None:
    log = stored(tmp_path, task=make_task(scenes=1, epochs=1), policy="noop")
    store = FrameStore(str(next(tmp_path.glob("frames/*"))))
    for camera in "edcba":
        store.put("scene-0-e0", 0, camera, np.zeros((2, 2, 3), np.uint8))
    [one] = submissions(log)
    assert [frame["camera"] for frame in one.trial["frames"]] == ["a", "b", "c", "d"]


def test_trials_that_broke_off_are_left_out(tmp_path: Path) -> None:
    log = stored(tmp_path, policy=FaultyPolicy((1,)))
    assert [one.name for one in submissions(log)] == ["scene-0-e0", "scene-1-e0", "scene-1-e1"]


def test_frames_are_found_beside_a_log_that_was_moved_or_where_the_user_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    log = stored(Path("logs"), policy="noop")
    assert json.loads(log.read_text())["stats"]["frames_dir"].startswith("logs/frames/")
    before = submissions(log)
    shutil.move("logs", "moved")
    moved = Path("moved") / log.name
    assert submissions(moved) == before
    shutil.move("moved/frames", "elsewhere")
    for build in (
        draft.build for found in find_inputs([str(moved)]) for draft in drafts(found, CHOICES)
    ):
        with pytest.raises(InputError, match="are not at logs/frames/") as caught:
            build()
        assert "--frames-dir" in str(caught.value.fix)
    [run_folder] = Path("elsewhere").iterdir()
    assert submissions(moved, frames_dir=Path("elsewhere")) == before
    assert submissions(moved, frames_dir=run_folder) == before
    with pytest.raises(InputError, match="has no frames of scene 'scene-0', epoch 0"):
        submissions(moved, frames_dir=tmp_path)


def test_a_scene_may_tell_for_itself_where_its_frames_are(tmp_path: Path) -> None:
    log = stored(tmp_path, policy="noop")
    before = submissions(log)
    value = json.loads(log.read_text())
    [folder] = tmp_path.glob("frames/*")
    other = folder.with_name("resumed")
    other.mkdir()
    for path in folder.glob("scene-1-*"):
        path.rename(other / path.name)
    value["samples"][1]["frames_dir"] = str(other)
    log.write_text(json.dumps(value))
    assert submissions(log) == before


def test_without_stored_frames_only_what_brings_its_verdict_is_submitted(tmp_path: Path) -> None:
    log = stored(tmp_path, task=make_task(scenes=3, epochs=5), frames=False)
    found = [draft for item in find_inputs([str(log)]) for draft in drafts(item, CHOICES)]
    built, errors = [], []
    for draft in found:
        try:
            built.append(draft.build())
        except AutograderError as error:
            errors.append(error)
    assert built
    assert {one.trial["frames"] == [] for one in built} == {True}
    assert {loaded(one).record.termination_reason for one in built} == {"success"}
    assert {"the run stored none" in error.message for error in errors} == {True}
    assert "--store-frames" in str(errors[0].fix)


def test_a_log_whose_actions_are_gone_is_submitted_without_them(tmp_path: Path) -> None:
    log = stored(tmp_path, policy="noop")
    shutil.rmtree(tmp_path / "actions")
    assert [list(loaded(one).record.steps) for one in submissions(log)] == [[]] * 4


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"t": 0}', b'{"t": 0, "action": ["x"]}'])
def test_damaged_actions_are_named(tmp_path: Path, line: bytes) -> None:
    log = stored(tmp_path, policy="noop")
    path = min((tmp_path / "actions").rglob("*.jsonl"))
    path.write_bytes(b"{}\n" + line + b"\n")
    with pytest.raises(InputError, match=path.name):
        submissions(log)


def test_a_log_of_our_own_grader_says_that_its_trials_are_submitted_already(tmp_path: Path) -> None:
    log = run(make_task(), TableGrader({}, Verdicts()), tmp_path)
    with pytest.raises(InputError, match="were submitted while they ran") as caught:
        submissions(log)
    assert "autograder harvest" in str(caught.value.fix)


def test_a_log_without_an_instruction_is_refused(tmp_path: Path) -> None:
    log = stored(tmp_path, policy="noop")
    value = json.loads(log.read_text())
    value["samples"][0]["instruction"] = None
    log.write_text(json.dumps(value))
    with pytest.raises(InputError, match="does not tell the instruction of scene 'scene-0'"):
        submissions(log)


def test_their_verdicts_are_harvested_into_the_same_log_and_it_is_the_same_to_the_service(
    tmp_path: Path,
) -> None:
    log = stored(tmp_path, task=make_task(scenes=3, epochs=5))
    before = submissions(log)
    with verdicts_at() as service:
        for number, one in enumerate(before):
            ended = loaded(one).record.terminated
            adopted = ("graded", "success", None, "embodiment", None)
            said = adopted if ended else (FAILURE if number % 2 else SUCCESS)
            service.said[one.trial["client_id"]] = said
        with Client(service.url) as client:
            found = harvest(client, log, Wishes(reducer="mean"))
            found.write()
            assert len(found.changes) == 15
            assert not harvest(client, log, Wishes()).changed
    value = json.loads(log.read_text())
    judged = [word for sample in value["samples"] for word in sample["operator_judgements"]]
    assert judged == [service.said[one.trial["client_id"]][1] for one in before]
    assert value["results"]["metrics"]["operator"] == pytest.approx(judged.count("success") / 15)
    # Submitted once more, from the harvested log: the same trials under the same client ids.
    assert submissions(log) == before
