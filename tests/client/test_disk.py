"""What is found on disk, and what is read of it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grader_service.client.disk import (
    Found,
    check_manifest,
    find_inputs,
    nothing_at,
    read_saved,
    read_trajectory,
)
from grader_service.errors import InputError, RecordError, TrajectoryError
from grader_service.records.canonical import canonical_bytes, digest
from grader_service.records.manifest import build_manifest
from grader_service.records.saved import save_trial
from grader_service.records.verdict import Verdict
from grader_service.records.verdict_lines import verdict_line
from tests.records.examples import PLAIN_SCENE, rollout

VERDICT = Verdict("v1", "vlm", "graded", "success", None, "2031-01-01T00:00:00Z")


def write(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def exported(folder: Path, *, steps: int = 100) -> Path:
    """Write a robot trial as an export does."""
    files = {**save_trial(rollout(steps), PLAIN_SCENE), "verdicts.jsonl": verdict_line(VERDICT)}
    manifest = canonical_bytes(build_manifest(files, newest_receipt=None))
    return write(folder, {**files, "manifest.json": manifest})


@pytest.fixture
def tree(tmp_path: Path, data: Path) -> Path:
    """A folder with one of everything."""
    run = (data / "a320" / "g01_apu_full.jsonl").read_bytes()
    write(
        tmp_path, {"runs/b.jsonl": run, "runs/a.jsonl": run, "runs/notes.txt": b"", "c.jsonl": run}
    )
    write(tmp_path, {"samples/trials.json": b"[]"})
    exported(tmp_path / "records" / "t1")
    return tmp_path


def names(tree: Path, *arguments: object) -> list[tuple[str, str]]:
    found = find_inputs([str(argument) for argument in arguments])
    return [(item.kind, item.path.relative_to(tree).as_posix()) for item in found]


def test_a_folder_is_searched_for_everything_that_can_be_read(tree: Path) -> None:
    assert names(tree, tree) == [
        ("a320", "c.jsonl"),
        ("record", "records/t1"),
        ("a320", "runs/a.jsonl"),
        ("a320", "runs/b.jsonl"),
        ("trials", "samples"),
    ]


def test_files_name_what_they_belong_to(tree: Path) -> None:
    record, trials = tree / "records/t1/record.json", tree / "samples/trials.json"
    assert names(tree, record, trials, tree / "runs/a.jsonl", tree / "runs/notes.txt") == [
        ("record", "records/t1"),
        ("trials", "samples"),
        ("a320", "runs/a.jsonl"),
        ("a320", "runs/notes.txt"),
    ]


def test_patterns_find_files_and_saved_records(tree: Path) -> None:
    assert names(tree, tree / "**" / "?.jsonl") == [
        ("a320", "c.jsonl"),
        ("a320", "runs/a.jsonl"),
        ("a320", "runs/b.jsonl"),
    ]
    assert names(tree, tree / "rec*" / "*") == [("record", "records/t1")]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tree: Path) -> None:
    (tree / "runs/a.jsonl").rename(tree / "runs/[b].jsonl")
    assert names(tree, tree / "runs/[b].jsonl") == [("a320", "runs/[b].jsonl")]


def test_a_folder_with_a_trial_json_is_one_trial_however_it_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"mine/a/trial.json": b"{}", "mine/b/trial.json": b"{}"})
    both = [("trial", "mine/a"), ("trial", "mine/b")]
    assert names(tmp_path, tmp_path) == both
    assert names(tmp_path, tmp_path / "mine/a/trial.json", tmp_path / "mine/b") == both
    assert names(tmp_path, tmp_path / "mine/*") == both


def test_another_json_file_is_taken_for_a_log_where_it_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"logs/pour_1a.json": b"{}", "logs/actions/x.txt": b""})
    assert names(tmp_path, tmp_path / "logs/*.json") == [("log", "logs/pour_1a.json")]
    with pytest.raises(InputError, match="nothing to read"):
        names(tmp_path, tmp_path / "logs")


def test_what_is_named_twice_or_reached_by_a_link_is_found_once(tree: Path) -> None:
    (tree / "link.jsonl").symlink_to(tree / "c.jsonl")
    inputs = [tree / "runs", tree / "runs/a.jsonl", tree / "c.jsonl", tree / "link.jsonl"]
    assert [path for _, path in names(tree, *inputs)] == ["runs/a.jsonl", "runs/b.jsonl", "c.jsonl"]


def test_the_verdicts_of_an_export_are_no_trajectory(tree: Path, data: Path) -> None:
    run = (data / "a320" / "g01_apu_full.jsonl").read_bytes()
    write(tree / "x", {"trajectory.jsonl": run, "verdicts.jsonl": verdict_line(VERDICT)})
    assert names(tree, tree / "x") == [("a320", "x/trajectory.jsonl")]


def test_an_export_that_lost_its_record_is_found_and_says_what_is_missing(tree: Path) -> None:
    (tree / "records/t1/record.json").unlink()
    [found] = find_inputs([str(tree / "records")])
    assert found == Found("record", tree / "records/t1")
    with pytest.raises(RecordError, match=r"t1/record\.json is missing"):
        read_saved(found.path)


@pytest.mark.parametrize("argument", ["nowhere", "nowhere/*.jsonl", "empty"])
def test_an_argument_that_names_nothing_is_told_or_handed_over(
    tmp_path: Path, argument: str
) -> None:
    (tmp_path / "empty").mkdir()
    name = str(tmp_path / argument)
    with pytest.raises(InputError, match="nothing to read") as caught:
        list(find_inputs([name]))
    assert str(caught.value) == str(nothing_at(name))
    missing: list[str] = []
    assert list(find_inputs([name], missing=missing.append)) == []
    assert missing == [name]


def test_an_exported_trial_comes_back_with_its_verdict(tmp_path: Path) -> None:
    folder = read_saved(exported(tmp_path / "t"))
    assert len(folder.saved.record.steps) == 100
    assert folder.effective == VERDICT


def test_a_record_without_verdicts_and_manifest_is_read_as_it_is(tmp_path: Path) -> None:
    folder = read_saved(write(tmp_path, save_trial(rollout(3), PLAIN_SCENE)))
    assert folder.effective is None
    assert folder.verdicts == []


def test_of_several_verdicts_the_one_that_counts_is_effective(tmp_path: Path) -> None:
    person = replace(VERDICT, id="v0", source="human", verdict="failure")
    write(tmp_path, save_trial(rollout(3), PLAIN_SCENE))
    lines = verdict_line(person) + b"\n" + verdict_line(VERDICT)
    folder = read_saved(write(tmp_path, {"verdicts.jsonl": lines}))
    assert [verdict.id for verdict in folder.verdicts] == ["v0", "v1"]
    assert folder.effective == person


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path, save_trial(rollout(300), PLAIN_SCENE))
    [*_, column] = sorted((folder / "columns").iterdir())
    column.unlink()
    saved = read_saved(folder).saved
    with pytest.raises(InputError, match=column.name):
        list(saved.record.steps)


def change(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-2] + bytes([data[-2] ^ 1]) + data[-1:])


@pytest.mark.parametrize("name", ["record.json", "verdicts.jsonl", "columns"])
@pytest.mark.parametrize("damage", [change, os.unlink], ids=["changed", "missing"])
def test_any_file_that_is_not_as_the_manifest_says_is_named(
    tmp_path: Path, name: str, damage: Any
) -> None:
    folder = exported(tmp_path / "t")
    check_manifest(folder)
    path = folder / name
    if path.is_dir():
        path = min(path.iterdir())
    damage(path)
    with pytest.raises(RecordError) as caught:
        read_saved(folder)
    assert caught.value.message.startswith(f"{path} ")
    assert caught.value.fix


def test_a_file_that_the_manifest_does_not_list_is_named(tmp_path: Path) -> None:
    folder = write(exported(tmp_path / "t"), {"frames/extra.png": b"x"})
    with pytest.raises(RecordError, match=r"frames/extra\.png is not listed in manifest\.json"):
        read_saved(folder)


def test_an_exported_trajectory_is_held_against_its_manifest(tmp_path: Path, data: Path) -> None:
    files = {
        "trajectory.jsonl": (data / "a320" / "g01_apu_full.jsonl").read_bytes(),
        "verdicts.jsonl": verdict_line(VERDICT),
    }
    manifest = canonical_bytes(build_manifest(files, newest_receipt=None))
    folder = write(tmp_path / "t", {**files, "manifest.json": manifest})
    assert read_trajectory(folder / "trajectory.jsonl")[0]["type"] == "meta"
    with (folder / "trajectory.jsonl").open("ab") as file:
        file.write(b'{"type": "judgement", "outcome": "graded", "verdict": "failure"}\n')
    with pytest.raises(RecordError, match=r"trajectory\.jsonl is not what it was"):
        read_trajectory(folder / "trajectory.jsonl")
    # Elsewhere, under a name of its own, a trajectory needs no manifest.
    shutil.copy(folder / "trajectory.jsonl", tmp_path / "mine.jsonl")
    (tmp_path / "manifest.json").write_text("{}")
    assert read_trajectory(tmp_path / "mine.jsonl")[-1]["type"] == "judgement"


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"[]",
        b'{"schema": "manifest/2", "files": {}}',
        b'{"schema": "manifest/1"}',
        b'{"schema": "manifest/1", "files": []}',
        b'{"schema": "manifest/1", "files": {"record.json": 5}}',
        b'{"schema": "manifest/1", "files": {}, "files": {}}',
    ],
)
def test_a_manifest_that_is_none_is_refused(tmp_path: Path, manifest: bytes) -> None:
    folder = write(exported(tmp_path / "t"), {"manifest.json": manifest})
    with pytest.raises(InputError, match=r"manifest\.json"):
        read_saved(folder)


def test_names_in_a_manifest_are_never_opened_only_compared(tmp_path: Path) -> None:
    folder = exported(tmp_path / "t")
    secret = write(tmp_path, {"secret": b"s"}) / "secret"
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"]["../secret"] = digest(secret.read_bytes())
    write(folder, {"manifest.json": canonical_bytes(manifest)})
    with pytest.raises(RecordError, match=r"\.\./secret is missing"):
        read_saved(folder)


def test_a_file_that_cannot_be_read_or_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    for name in ("gone.jsonl", "."):
        with pytest.raises(InputError, match="can't be read"):
            read_trajectory(tmp_path / name)
    write(tmp_path, {"empty.jsonl": b""})
    with pytest.raises(TrajectoryError, match="no meta record"):
        read_trajectory(tmp_path / "empty.jsonl")


def test_a_pattern_finds_each_exported_trial_once_and_folders_of_lists(
    tmp_path: Path, data: Path
) -> None:
    run = (data / "a320" / "g01_apu_full.jsonl").read_bytes()
    write(tmp_path / "cockpit", {"trajectory.jsonl": run, "verdicts.jsonl": verdict_line(VERDICT)})
    record = {**save_trial(rollout(2), PLAIN_SCENE), "verdicts.jsonl": verdict_line(VERDICT)}
    write(tmp_path / "robot", record)
    for name in ("cockpit", "robot"):
        (tmp_path / name / "manifest.json").write_text("{}")
    (tmp_path / "listed").mkdir()
    (tmp_path / "listed" / "trials.json").write_text('{"trials": []}')
    found = find_inputs([str(tmp_path / "**" / "*.jsonl"), str(tmp_path / "*")])
    assert [(one.kind, one.path.relative_to(tmp_path).as_posix()) for one in found] == [
        ("a320", "cockpit/trajectory.jsonl"),
        ("record", "robot"),
        ("trials", "listed"),
    ]


def test_folders_that_are_being_written_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path / "whole", save_trial(rollout(2), PLAIN_SCENE))
    write(tmp_path / ".s-e0.tmp", save_trial(rollout(2), PLAIN_SCENE))
    assert [one.path.name for one in find_inputs([str(tmp_path)])] == ["whole"]
