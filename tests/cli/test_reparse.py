"""`autograder reparse`: what stored replies come to now, and that nothing is overwritten."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from grader_service.cli.main import app
from grader_service.records.canonical import canonical_bytes
from tests.packaging.test_base_install import run_base
from tests.support.exported import Exported, exported


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return exported(tmp_path_factory.mktemp("home"))


@pytest.fixture
def folder(exports: Exported, tmp_path: Path) -> Path:
    """An exported run on disk."""
    return exports.write(tmp_path / "exported")


def reparse(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["reparse", *map(str, arguments)])


def as_json(*arguments: object) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(reparse(*arguments, "--json").stdout)
    return value


def rewrite(trial: Path, change: Callable[[dict[str, Any]], None]) -> bytes:
    """Change the first receipt of an exported trial, as if an older parser had written it."""
    path = trial / "verdicts.jsonl"
    first, *rest = (json.loads(line) for line in path.read_bytes().splitlines())
    change(first["receipt"])
    data = b"".join(map(canonical_bytes, [first, *rest]))
    path.write_bytes(data)
    return data


def by_an_older_parser(receipt: dict[str, Any]) -> None:
    receipt["parser"] = "reply/0"
    receipt["outcome"] = {"outcome": "ungraded", "verdict": None, "reason": "reply_invalid"}
    receipt["findings"] = []


def test_every_stored_reply_comes_to_what_it_came_to(folder: Path) -> None:
    result = reparse(folder)
    assert result.exit_code == 0, result.stdout
    # All but the two receipts without a reply: locked out and dark.
    assert "12 receipts parsed again with reply/1: none differs" in result.stdout


def test_what_an_older_parser_read_otherwise_is_shown_and_not_overwritten(folder: Path) -> None:
    before = rewrite(folder / "repaired", by_an_older_parser)
    result = reparse(folder)
    assert result.exit_code == 1
    [line] = [line for line in result.stdout.splitlines() if "reply/0" in line]
    assert "reply_invalid" in line
    assert "failure" in line
    assert "outcome, findings" in line
    assert (folder / "repaired" / "verdicts.jsonl").read_bytes() == before
    [changed] = [one for one in as_json(folder)["receipts"] if one["changed"]]
    assert changed["old"]["reason"] == "reply_invalid"
    assert changed["new"] == {"outcome": "graded", "verdict": "failure", "reason": None}


def test_the_replies_that_were_asked_for_once_more_are_parsed_as_well(folder: Path) -> None:
    def empty(receipt: dict[str, Any]) -> None:
        receipt["votes"][0]["outcome"]["reason"] = "reply_empty"

    rewrite(folder / "repaired", empty)
    [changed] = [one for one in as_json(folder)["receipts"] if one["changed"]]
    assert changed["changed"] == ["votes[0].outcome"]
    assert changed["old"] == changed["new"]


def test_a_receipt_that_can_not_be_read_is_named_and_the_rest_is_parsed(folder: Path) -> None:
    rewrite(folder / "repaired", lambda receipt: receipt.update(votes=3))
    (folder / "refused" / "verdicts.jsonl").write_bytes(b"{\n")
    result = reparse(folder)
    assert result.exit_code == 1
    assert "repaired/verdicts.jsonl:1: votes:" in result.stderr
    assert "refused/verdicts.jsonl:1 is not JSON" in result.stderr
    assert "10 receipts" in result.stdout


def test_the_base_install_parses_again(folder: Path) -> None:
    done = run_base("reparse", str(folder), "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["receipts"]) == 12


@pytest.mark.parametrize("arguments", [[], ["x", "--run", "r"], ["nowhere"]])
def test_nothing_to_parse_is_wrong_use(arguments: list[str], tmp_path: Path) -> None:
    result = reparse(*arguments)
    assert getattr(result.exception, "exit_code", None) == 2
    assert getattr(result.exception, "fix", None)


def test_without_a_stored_reply_there_is_nothing_to_parse(folder: Path) -> None:
    result = reparse(folder / "dark")
    assert getattr(result.exception, "exit_code", None) == 2
