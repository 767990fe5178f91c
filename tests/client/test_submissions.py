"""Trials on disk become submissions that a service takes as they are."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from grader_service.client.disk import Found, find_inputs
from grader_service.client.http import Client
from grader_service.client.submissions import (
    Choices,
    Draft,
    Submission,
    drafts,
    entries,
    try_build,
)
from grader_service.errors import AutograderError, InputError, RecordError
from grader_service.records.canonical import digest
from grader_service.records.saved import FrameRef, load_trial, save_trial
from tests.records.examples import PLAIN_SCENE, rollout

CHOICES = Choices(run="r", rubric="Is it done?", judge=None)


def drafted(*paths: Path, choices: Choices = CHOICES) -> list[Draft]:
    found = find_inputs(str(path) for path in paths)
    return [draft for item in found for draft in drafts(item, choices)]


def built(path: Path, choices: Choices = CHOICES) -> Submission:
    [draft] = drafted(path, choices=choices)
    return draft.build()


def entry(tmp_path: Path, **changes: Any) -> Submission:
    """Return the submission of a trials.json with one trial."""
    trial = {"id": "t1", "instruction": "Do it."} | changes
    (tmp_path / "trials.json").write_text(json.dumps({"trials": [trial]}))
    return built(tmp_path)


def loaded(submission: Submission) -> Any:
    """Return the record that a submission brings."""
    files = {"record.json": submission.parts["record"], **submission.parts}
    return load_trial(files.__getitem__)


@pytest.fixture
def client(service_url: str) -> Iterator[Client]:
    with Client(service_url) as client:
        yield client


@pytest.fixture
def saved(tmp_path: Path, sample_trials: Path) -> Path:
    """The folder of a saved robot trial with a frame."""
    frame = (sample_trials / "pad-01" / "final_front.jpg").read_bytes()
    ref = FrameRef("front", "last", digest(frame), "image/jpeg", len(frame))
    folder = tmp_path / "saved"
    record = rollout(300)
    record.terminated = False  # nothing that would be adopted as its verdict
    files = save_trial(record, PLAIN_SCENE, frames=[ref])
    for name, data in {**files, f"frames/{ref.sha256}.jpg": frame}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def test_the_service_takes_every_sample_trial_and_cockpit_run(
    client: Client, sample_trials: Path
) -> None:
    found = drafted(sample_trials, sample_trials.parent / "a320", choices=Choices(run="samples"))
    assert len(found) == 27
    for draft in found:
        submission = draft.build()
        state = client.submit(submission.trial, submission.parts)
        assert state["run"] == "samples"
        assert state["client_id"] == submission.trial["client_id"]
    assert client.run("samples")["trials"] == 27


def test_submitting_the_same_disk_twice_makes_no_second_trial(
    client: Client, saved: Path, data: Path
) -> None:
    for path in (saved, data / "a320" / "g01_apu_full.jsonl"):
        first, second = (built(path, Choices(run="twice")) for _ in range(2))
        ids = {client.submit(one.trial, one.parts)["id"] for one in (first, second)}
        assert len(ids) == 1
    assert client.run("twice")["trials"] == 2


def test_a_saved_record_is_submitted_with_its_columns_and_frames(
    client: Client, saved: Path
) -> None:
    submission = built(saved)
    assert {name.split("/")[0] for name in submission.parts} == {"record", "columns", "f0"}
    assert submission.trial["frames"] == [{"camera": "front", "phase": "last", "part": "f0"}]
    state = client.submit(submission.trial, submission.parts)
    assert client.record(state["id"]) == (saved / "record.json").read_bytes()
    assert json.loads(client.scorecard(state["id"]))["scores"]["episode_length"]["value"] == 300


def test_files_of_one_name_and_other_content_are_other_trials(tmp_path: Path, data: Path) -> None:
    for case in ("g01_apu_full", "g05_eng1_full"):
        (tmp_path / case).mkdir()
        shutil.copy(data / "a320" / f"{case}.jsonl", tmp_path / case / "run.jsonl")
    ids = {draft.build().trial["client_id"] for draft in drafted(tmp_path)}
    assert len(ids) == 2


def test_a_client_id_fits_the_service_however_long_the_names_are(
    client: Client, tmp_path: Path
) -> None:
    submission = entry(tmp_path, id="x" * 199)
    assert len(submission.trial["client_id"]) <= 200
    client.submit(submission.trial, submission.parts)


def test_frame_keys_name_the_phase_and_the_camera(tmp_path: Path) -> None:
    keys = ["first_a", "initial_b", "last_a", "final_b", "parked_wrist_left"]
    for key in keys:
        (tmp_path / key).write_bytes(key.encode())
    submission = entry(tmp_path, frames={key: key for key in keys})
    listed = {
        (frame["phase"], frame["camera"]): submission.parts[frame["part"]]
        for frame in submission.trial["frames"]
    }
    assert listed == {
        ("first", "a"): b"first_a",
        ("first", "b"): b"initial_b",
        ("last", "a"): b"last_a",
        ("last", "b"): b"final_b",
        ("parked", "wrist_left"): b"parked_wrist_left",
    }


@pytest.mark.parametrize("column", ["distance", "distance_m", "target_goal_distance_m"])
def test_a_trace_becomes_steps_whose_distance_scorers_can_read(tmp_path: Path, column: str) -> None:
    trace = {"columns": ["t", column], "rows": [[0, 0.5], [1, 0.125]]}
    record = loaded(entry(tmp_path, trace=trace)).record
    assert [step.result.info["distance"] for step in record.steps] == [0.5, 0.125]
    assert [step.result.info["t"] for step in record.steps] == [0.0, 1.0]


def test_the_truth_of_a_sample_is_no_part_of_what_is_submitted(tmp_path: Path) -> None:
    told, hidden = (entry(tmp_path, **truth) for truth in ({"success": True}, {}))
    assert told == hidden


def test_a_trials_own_rubric_beats_that_of_the_run(tmp_path: Path) -> None:
    assert entry(tmp_path).trial["rubric"] == "Is it done?"
    assert entry(tmp_path, rubric="robot/stack").trial["rubric"] == "robot/stack"
    assert entry(tmp_path, criterion="Stacked?").trial["rubric"] == "Stacked?"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": ""}, "'id' is missing or empty"),
        ({"id": 7}, "'id' is missing or empty"),
        ({"instruction": " "}, "t1: 'instruction' is missing or empty"),
        ({"instruction": None}, "t1: 'instruction' is missing or empty"),
        ({"frames": ["a.jpg"]}, "t1: 'frames' is no object"),
        ({"frames": {"front": "a.jpg"}}, "'front' names no phase and camera"),
        ({"frames": {"middle_front": "a.jpg"}}, "'middle_front' names no phase"),
        ({"frames": {"first_": "a.jpg"}}, "'first_' names no phase and camera"),
        ({"frames": {"first_front": "gone.jpg"}}, "gone.jpg can't be read"),
        ({"trace": []}, "t1: the trace can't be read"),
        ({"trace": {"columns": ["t"]}}, "t1: the trace can't be read"),
        ({"trace": {"columns": ["t"], "rows": [["x"]]}}, "t1: the trace can't be read"),
        ({"trace": {"columns": ["t"], "rows": 5}}, "t1: the trace can't be read"),
    ],
)
def test_what_is_wrong_with_a_trial_is_told_with_its_name_and_a_fix(
    tmp_path: Path, changes: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        entry(tmp_path, **changes)
    assert caught.value.fix


def test_one_bad_trial_of_a_folder_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    trials = [{"id": "good", "instruction": "x"}, {"id": "bad"}]
    (tmp_path / "trials.json").write_text(json.dumps(trials))
    good, bad = map(try_build, drafted(tmp_path))
    assert isinstance(good, Submission)
    assert isinstance(bad, AutograderError)


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"trials": {}}', '{"trials": [[]]}', "NaN"])
def test_a_trials_json_that_holds_no_trials_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "trials.json").write_text(content)
    with pytest.raises(InputError, match=r"trials\.json") as caught:
        entries(tmp_path)
    assert caught.value.fix


def test_a_saved_record_without_one_of_its_frames_is_not_submitted(saved: Path) -> None:
    [frame] = (saved / "frames").iterdir()
    frame.unlink()
    with pytest.raises(InputError, match=f"{frame.stem} of .* is missing"):
        built(saved)


def test_an_export_that_was_changed_is_not_submitted(tmp_path: Path, data: Path) -> None:
    shutil.copy(data / "a320" / "g01_apu_full.jsonl", tmp_path / "trajectory.jsonl")
    (tmp_path / "manifest.json").write_text('{"schema": "manifest/1", "files": {}}')
    with pytest.raises(RecordError, match=r"trajectory\.jsonl is not listed"):
        next(drafts(Found("a320", tmp_path / "trajectory.jsonl"), CHOICES)).build()


def trial_folder(folder: Path, **entry: Any) -> Path:
    """Write a trial.json beside pictures."""
    folder.mkdir(parents=True)
    (folder / "trial.json").write_text(json.dumps(entry))
    for name in ("first_front.png", "last_front.PNG", "parked_wrist_left.npy"):
        (folder / name).write_bytes(name.encode())
    for name in ("notes_front.png", "first.png", "last_front.txt"):
        (folder / name).write_bytes(b"something else")
    return folder


def test_a_folder_with_a_trial_json_is_a_trial_whose_frames_are_named_by_phase_and_camera(
    tmp_path: Path,
) -> None:
    folder = trial_folder(tmp_path / "pad-01", instruction="Do it.", rubric="Done?")
    (folder / "first.png").unlink()
    submission = built(folder)
    assert submission.trial["client_id"] == "r/pad-01"
    assert submission.trial["scene"] == {"id": "pad-01", "instruction": "Do it."}
    assert submission.trial["rubric"] == "Done?"
    assert {
        (frame["phase"], frame["camera"]): submission.parts[frame["part"]]
        for frame in submission.trial["frames"]
    } == {
        ("first", "front"): b"first_front.png",
        ("last", "front"): b"last_front.PNG",
        ("parked", "wrist_left"): b"parked_wrist_left.npy",
    }


def test_a_trial_json_may_name_the_trial_and_list_its_frames_itself(tmp_path: Path) -> None:
    frames = {"last_top": "notes_front.png"}
    folder = trial_folder(tmp_path / "x", id="mine", instruction="Do it.", frames=frames)
    submission = built(folder)
    assert submission.name == submission.trial["scene"]["id"] == "mine"
    assert [frame["camera"] for frame in submission.trial["frames"]] == ["top"]
    assert submission.parts["f0"] == b"something else"


def test_a_trial_of_a_folder_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'instruction' is missing"):
        built(trial_folder(tmp_path / "a"))
    with pytest.raises(InputError, match="the frame key 'first' names no phase and camera"):
        built(trial_folder(tmp_path / "b", instruction="x"))
    folder = trial_folder(tmp_path / "c", instruction="x")
    for content in ("[]", "{", '{"instruction": "x", "instruction": "y"}'):
        (folder / "trial.json").write_text(content)
        with pytest.raises(InputError, match=r"trial\.json"):
            built(folder)


def test_a_plain_folder_of_trials_is_taken_by_the_service(
    client: Client, tmp_path: Path, sample_trials: Path
) -> None:
    for name in ("pad-01", "pad-02"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "trial.json").write_text('{"instruction": "Put it on the pad."}')
        for phase, file in (("first", "initial"), ("last", "final")):
            shutil.copy(sample_trials / name / f"{file}_front.jpg", folder / f"{phase}_front.jpg")
    for draft in drafted(tmp_path, choices=Choices(run="plain")):
        submission = draft.build()
        client.submit(submission.trial, submission.parts)
    assert [trial["scene_id"] for trial in client.trials(run="plain")] == ["pad-01", "pad-02"]
