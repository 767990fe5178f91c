"""`rubric` checks files, lists the library and shows rubrics that can be copied."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from grader_service.cli.rubric import rubric_app
from grader_service.errors import RubricError, UsageError
from grader_service.judging.rubric import library, load_rubric

GOOD = "id: lab/t\ncriteria:\n- {id: a, text: It is so.}\n- {id: b, text: Nice., required: no}\n"


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(rubric_app, arguments)


@pytest.fixture
def good(tmp_path: Path) -> str:
    (tmp_path / "good.yaml").write_text(GOOD, encoding="utf-8")
    return str(tmp_path / "good.yaml")


@pytest.fixture
def bad(tmp_path: Path) -> str:
    (tmp_path / "bad.yaml").write_text(GOOD + "titel: x\n", encoding="utf-8")
    return str(tmp_path / "bad.yaml")


def test_a_good_rubric_prints_its_id_digest_and_criteria(good: str) -> None:
    result = _run("check", good)
    assert result.exit_code == 0
    digest = load_rubric(GOOD, name="x.yaml").digest
    assert result.stdout == (
        f"ok {good}: lab/t (frames) {digest}\n  a (required): It is so.\n  b (optional): Nice.\n"
    )


def test_a_bad_rubric_is_named_with_its_line_and_does_not_stop_the_others(
    good: str, bad: str
) -> None:
    result = _run("check", bad, good, "none.yaml")
    assert result.exit_code == 1
    assert f"ok {good}" in result.stdout
    assert f"{bad}:5: titel: unknown key\nfix: " in result.stderr
    assert "none.yaml can't be read: No such file" in result.stderr


def test_the_library_is_all_good(pytestconfig: pytest.Config) -> None:
    files = sorted(str(path) for path in (pytestconfig.rootpath / "rubrics").glob("*/*.yaml"))
    result = _run("check", *files)
    assert result.exit_code == 0
    assert result.stdout.count("ok /") == len(files) == len(library())


def test_check_as_json_holds_rubrics_and_errors(good: str, bad: str) -> None:
    result = _run("check", "--json", good, bad)
    assert result.exit_code == 1
    printed = json.loads(result.stdout)
    rubric = load_rubric(GOOD, name="x.yaml")
    assert printed["rubrics"] == [{"path": good, "digest": rubric.digest, **rubric.to_dict()}]
    assert [item["path"] for item in printed["errors"]] == [bad]


def test_nothing_readable_is_wrong_use(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes(b"\xff")
    result = _run("check", str(tmp_path / "x.yaml"), str(tmp_path / "none.yaml"))
    assert isinstance(result.exception, UsageError)
    assert result.exception.exit_code == 2
    assert "x.yaml can't be read: not UTF-8" in result.stderr
    assert _run("check").exit_code == 2


def test_a_text_file_is_checked_as_free_text(tmp_path: Path) -> None:
    (tmp_path / "t.md").write_text("The [drawer] is shut.\n", encoding="utf-8")
    result = _run("check", str(tmp_path / "t.md"))
    assert result.exit_code == 0
    assert "  holistic (required): The [drawer] is shut.\n" in result.stdout


def test_list_names_every_rubric_of_the_library() -> None:
    lines = _run("list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == sorted(library())
    printed = json.loads(_run("list", "--json").stdout)
    assert {item["id"]: item["digest"] for item in printed} == {
        rubric.id: rubric.digest for rubric in library().values()
    }


@pytest.mark.parametrize("rubric_id", sorted(library()))
def test_what_show_prints_is_the_same_rubric_again(rubric_id: str) -> None:
    shown = load_rubric(_run("show", rubric_id).stdout, name="mine.yaml")
    assert shown == library()[rubric_id]
    assert json.loads(_run("show", rubric_id, "--json").stdout)["digest"] == shown.digest


@pytest.mark.parametrize("rubric_id", ["robot/place-in-gaol", "any sentence", ""])
def test_show_of_another_id_names_what_to_do(rubric_id: str) -> None:
    error = _run("show", rubric_id).exception
    assert isinstance(error, RubricError)
    assert "autograder rubric list" in str(error)


@pytest.mark.parametrize("command", ["check", "list", "show"])
def test_each_help_text_has_an_example(command: str) -> None:
    assert "Example: autograder rubric" in _run(command, "--help").stdout
