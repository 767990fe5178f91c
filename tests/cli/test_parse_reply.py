"""`parse-reply` prints one outcome for one stored reply, and exits 0 whenever it printed one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from grader_service.cli.parse_reply import parse_reply_command
from grader_service.errors import AutograderError, InputError

CASES = json.loads(
    (Path(__file__).parents[1] / "data" / "replies" / "cases.json").read_text(encoding="utf-8")
)
STORED = {"wire": "text", "rubric": None, "token": None, "body": "GRADE: success"}

app = typer.Typer()
app.command()(parse_reply_command)


def _run(data: bytes | str, *arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, [*(arguments or ("-",))], input=data)
    if isinstance(result.exception, AutograderError):
        raise result.exception
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 1
    printed: dict[str, Any] = json.loads(result.stdout)
    assert list(printed) == ["outcome", "verdict", "reason"]
    return printed


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_each_stored_reply_prints_its_outcome(case: dict[str, Any]) -> None:
    assert _run(json.dumps(case["input"])) == case["expected"]


def test_a_reply_is_read_from_a_file_or_from_standard_input(tmp_path: Path) -> None:
    file = tmp_path / "reply.json"
    file.write_text("\ufeff" + json.dumps(STORED), encoding="utf-8")
    graded = {"outcome": "graded", "verdict": "success", "reason": None}
    assert _run("", str(file)) == graded
    assert _run(json.dumps(STORED), "-") == graded


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"wire": "openai.chat"}, "reply_invalid"),
        ({"body": None}, "reply_invalid"),
        ({"body": ""}, "reply_empty"),
        ({"body": "GRADE:" + " " * 60_000}, "reply_invalid"),
        ({"body": "[" * 100_000}, "reply_invalid"),
        ({"rubric": "the drawer is shut", "body": "hm"}, "reply_invalid"),
    ],
)
def test_whatever_the_body_is_one_outcome_is_printed(changed: dict[str, Any], reason: str) -> None:
    assert _run(json.dumps(STORED | changed))["reason"] == reason


def test_numbers_of_any_length_in_a_response_object_are_read() -> None:
    whole = '{"wire": "openai.chat", "rubric": null, "body": {"usage": {"n": %s}, "choices": []}}'
    assert _run(whole % ("1" * 5000))["reason"] == "reply_invalid"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"GRADE: success",
        b"[]",
        b"[" * 100_000,
        b"{}",
        json.dumps(CASES[0]).encode(),
        json.dumps({key: value for key, value in STORED.items() if key != "body"}).encode(),
        json.dumps(STORED | {"wire": "gemini"}).encode(),
        json.dumps(STORED | {"wire": ["text"]}).encode(),
        json.dumps(STORED | {"token": 3}).encode(),
        json.dumps(STORED | {"rubric": {"criteria": []}}).encode(),
        json.dumps(STORED | {"rubric": "robot/stak"}).encode(),
    ],
)
def test_a_file_that_holds_no_stored_reply_is_wrong_use_with_a_fix(data: bytes) -> None:
    with pytest.raises(InputError) as caught:
        _run(data)
    assert caught.value.exit_code == 2
    assert caught.value.fix


def test_a_file_that_is_not_there_is_wrong_use(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(InputError, match="can't be read"):
            _run("", str(path))


def test_neither_command_needs_the_packages_of_the_server() -> None:
    code = (
        "import sys\n"
        "for name in ('fastapi', 'celery', 'sqlalchemy', 'openai', 'anthropic', 'obstore'):\n"
        "    sys.modules[name] = None\n"
        "import grader_service.cli.parse_reply, grader_service.cli.rubric\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
