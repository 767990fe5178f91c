"""`autograder verify`: exit codes, what is printed, and what counts as an exported trial."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from grader_service.cli.main import app
from tests.packaging.test_base_install import run_base
from tests.support.exported import Exported, exported, write_files


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return exported(tmp_path_factory.mktemp("home"))


@pytest.fixture
def folder(exports: Exported, tmp_path: Path) -> Path:
    """An exported run on disk."""
    return exports.write(tmp_path / "exported")


def verify(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["verify", *map(str, arguments)])


def as_json(*arguments: object) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(verify(*arguments, "--json").stdout)
    return value


def test_an_export_without_a_difference_exits_0(folder: Path) -> None:
    result = verify(folder)
    assert result.exit_code == 0, result.stdout
    assert "14 trials, 14 receipts: no difference" in result.stdout
    assert "not recomputed: frames[].sha256_sent" in result.stderr


def test_the_base_install_verifies(folder: Path) -> None:
    done = run_base("verify", str(folder), "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["trials"], report["receipts"], report["differences"]) == (14, 14, [])


def test_a_difference_is_listed_with_where_what_expected_and_found(folder: Path) -> None:
    path = folder / "repaired" / "record.json"
    path.write_bytes(path.read_bytes() + b" ")
    result = verify(folder)
    assert result.exit_code == 1
    assert f"{path}: sha256 by the manifest: expected " in result.stdout
    assert "14 trials, 14 receipts: 1 difference" in result.stdout
    [difference] = as_json(folder)["differences"]
    assert difference.keys() == {"path", "what", "expected", "found"}
    assert difference["path"] == str(path)


def test_a_trial_can_be_named_by_itself_and_is_verified_once(folder: Path) -> None:
    trial = folder / "repaired"
    assert as_json(trial)["trials"] == 1
    assert as_json(trial, trial, folder)["trials"] == 14


@pytest.mark.parametrize("lost", ["manifest.json", "record.json", "verdicts.jsonl"])
def test_a_lost_file_is_missed(folder: Path, lost: str) -> None:
    (folder / "repaired" / lost).unlink()
    report = as_json(folder)
    assert report["trials"] == 14
    assert str(folder / "repaired" / lost) in {item["path"] for item in report["differences"]}


def test_what_is_no_export_is_nothing_to_verify(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        result = verify(path)
        assert getattr(result.exception, "exit_code", None) == 2
        assert getattr(result.exception, "fix", None)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_whatever_a_file_and_its_content_are_called_is_printed(folder: Path) -> None:
    (folder / "refused" / os.fsdecode(b"\xff\x1b[31m")).write_bytes(b"")
    verdicts = folder / "repaired" / "verdicts.jsonl"
    verdicts.write_bytes(verdicts.read_bytes().replace(b'"trial":"', b'"trial":"\\ud800', 1))
    result = verify(folder)
    assert result.exit_code == 1, result.exception
    assert "\ufffd\\x1b[31m" in result.stdout
    assert "\ufffd" in str(as_json(folder)["differences"])


@pytest.mark.skipif(os.name != "posix", reason="uses a dangling symbolic link")
def test_a_file_that_can_not_be_read_is_a_difference(folder: Path) -> None:
    (folder / "repaired" / "record.json").unlink()
    (folder / "repaired" / "record.json").symlink_to(folder / "nowhere")
    result = verify(folder)
    assert result.exit_code == 1
    assert "expected one that can be read, found No such file or directory" in result.stdout


def test_a_folder_called_by_a_trials_id_holds_that_trial(exports: Exported, tmp_path: Path) -> None:
    receipt = json.loads(exports.trials["repaired"]["verdicts.jsonl"])["receipt"]
    right = write_files(tmp_path / receipt["trial"], exports.trials["repaired"])
    assert verify(right).exit_code == 0
    wrong = write_files(
        tmp_path / ("0" + receipt["trial"][1:].replace("0", "1", 1)), exports.trials["refused"]
    )
    assert [item["what"] for item in as_json(wrong)["differences"]] == ["trial"]
