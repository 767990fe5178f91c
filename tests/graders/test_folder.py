"""Verdicts that are added to a trial's folder: what is there stays, and it is always whole."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from grader_service.cli.main import app
from grader_service.errors import InputError, RecordError
from grader_service.graders.folder import TrialFolder, folder_name
from grader_service.graders.trial import new_verdict
from grader_service.records.canonical import canonical_bytes
from grader_service.records.saved import save_trial
from grader_service.records.trial import Scene, TrialRecord
from grader_service.records.verdict import Decision, Verdict

ROOT = Path(__file__).parents[2]
COCKPIT = (ROOT / "examples" / "a320" / "g01_apu_full.jsonl").read_bytes()


def said(word: str = "success") -> Verdict:
    decision = Decision.graded("success" if word == "success" else "failure")
    return new_verdict("human", decision, by="ana")


def robot(path: Path) -> TrialFolder:
    return TrialFolder.create(path, save_trial(TrialRecord("s", 0, None), Scene("s", "Do it.")))


def difference(path: Path) -> str:
    return CliRunner().invoke(app, ["verify", str(path)]).stdout.splitlines()[-1].partition(": ")[2]


@pytest.mark.parametrize("tail", [b"", b'{"type": "final", "te', b" \n\n"])
def test_a_cockpit_run_ends_in_the_verdict_that_counts_however_many_are_added(
    tmp_path: Path, tail: bytes
) -> None:
    submitted = COCKPIT + tail
    folder = TrialFolder.create(tmp_path / "run", {"trajectory.jsonl": submitted})
    for word in ("success", "failure", "success"):
        folder.load()
        folder.add(said(word))
        assert difference(tmp_path) == "no difference"
    lines = (tmp_path / "run" / "trajectory.jsonl").read_bytes().splitlines()
    kinds = [json.loads(line)["type"] for line in lines if line.strip()]
    assert kinds.count("judgement") == 1
    assert json.loads(lines[-1])["verdict"] == "success"
    assert len(folder.load().verdicts) == 3


def test_making_a_trial_that_is_there_already_changes_nothing(tmp_path: Path) -> None:
    folder = robot(tmp_path / "t")
    folder.add(said())
    robot(tmp_path / "t")
    assert len(folder.load().verdicts) == 1


def test_a_saved_record_without_a_manifest_gets_one_with_its_first_verdict(tmp_path: Path) -> None:
    folder = robot(tmp_path / "t")
    (tmp_path / "t" / "manifest.json").unlink()
    (tmp_path / "t" / "verdicts.jsonl").unlink()
    folder.load()
    folder.add(said())
    assert difference(tmp_path) == "no difference"


def test_ctrl_c_comes_when_the_folder_is_whole_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = robot(tmp_path / "t")
    flush = os.fsync

    def pressed(file: int) -> None:
        signal.raise_signal(signal.SIGINT)
        flush(file)

    monkeypatch.setattr(os, "fsync", pressed)
    with pytest.raises(KeyboardInterrupt):
        folder.add(said())
    assert difference(tmp_path) == "no difference"
    assert len(folder.load().verdicts) == 1


def test_a_folder_that_is_not_as_it_was_is_not_graded(tmp_path: Path) -> None:
    folder = robot(tmp_path / "t")
    (tmp_path / "t" / "notes.txt").write_text("mine")
    with pytest.raises(RecordError, match=r"notes\.txt is not listed"):
        folder.load()


def test_a_trajectory_whose_manifest_lost_how_it_was_submitted_is_refused(tmp_path: Path) -> None:
    folder = TrialFolder.create(tmp_path / "run", {"trajectory.jsonl": COCKPIT})
    path = tmp_path / "run" / "manifest.json"
    path.write_bytes(canonical_bytes(json.loads(path.read_bytes()) | {"as_submitted": None}))
    with pytest.raises(RecordError, match="take the judgement off"):
        folder.load()


def test_a_place_that_can_not_be_written_to_is_an_error_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="can't be written"):
        robot(tmp_path / "file" / "t")


def test_a_folder_that_is_called_by_a_trials_id_keeps_it(tmp_path: Path) -> None:
    name = str(uuid4())
    assert robot(tmp_path / name).load().id == name


def test_a_trial_whose_making_was_cut_short_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = save_trial(TrialRecord("s", 0, None), Scene("s", "Do it.")) | {"frames/a.png": b"a"}
    flush = os.fsync
    for cut in range(1, 5):
        path, left = tmp_path / str(cut), iter(range(cut))

        def pressed(file: int, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise KeyboardInterrupt
            flush(file)

        with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
            patch.setattr(os, "fsync", pressed)
            TrialFolder.create(path, files)
        TrialFolder.create(path, files).load()
        assert (path / "frames" / "a.png").read_bytes() == b"a"


def test_a_receipt_that_is_none_makes_a_trial_unreadable_and_no_more(tmp_path: Path) -> None:
    folder = robot(tmp_path / "t")
    folder.add(replace(said(), receipt={"schema": "receipt/1"}))
    with pytest.raises(RecordError, match="Field required"):
        folder.load()


@pytest.mark.parametrize("name", ["a" * 300, "把紅色方塊放到碗裡" * 40, "/../x", "🤖" * 100])
def test_a_trials_name_makes_the_name_of_a_folder_whatever_it_is(name: str, tmp_path: Path) -> None:
    found = folder_name(name, "0123456789")
    assert (tmp_path / found).parent == tmp_path
    (tmp_path / found).mkdir()
    assert found.endswith("-01234567")
