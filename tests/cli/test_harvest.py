"""`autograder harvest`: what it writes, says and exits with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from grader_service.cli.main import app
from tests.packaging.test_base_install import run_base
from tests.support.harness_logs import (
    ABSTAINED,
    FAILURE,
    SUCCESS,
    UNGRADED,
    TableGrader,
    Verdicts,
    make_task,
    run,
    verdicts_at,
)

TABLE = {
    ("scene-0", 0): SUCCESS,
    ("scene-0", 1): FAILURE,
    ("scene-1", 0): ABSTAINED,
    ("scene-1", 1): UNGRADED,
}


@pytest.fixture
def service() -> Iterator[Verdicts]:
    with verdicts_at() as verdicts:
        yield verdicts


@pytest.fixture
def log(service: Verdicts, tmp_path: Path) -> Path:
    """The log of a run whose four trials wait."""
    task = make_task(scenes=2, epochs=2)
    return run(task, TableGrader(TABLE, service), tmp_path / "logs", policy="noop")


def harvest(service: Verdicts, *arguments: object) -> Result:
    return CliRunner().invoke(app, ["harvest", "--url", service.url, *map(str, arguments)])


def test_it_says_what_it_wrote_and_then_that_there_is_nothing_to_do(
    service: Verdicts, log: Path
) -> None:
    result = harvest(service, log, "--reducer", "mean")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        f"{log}: 4 trials harvested: 1 abstained, 1 failure, 1 success, 1 ungraded",
        "  operator: 0.000 -> 0.250",
    ]
    result = harvest(service, log)
    assert (result.exit_code, result.stdout) == (0, f"{log}: nothing to do\n")


def test_a_dry_run_shows_every_verdict_and_writes_none(service: Verdicts, log: Path) -> None:
    data = log.read_bytes()
    result = harvest(service, log, "--reducer", "mean", "--dry-run")
    assert result.exit_code == 0
    assert "4 trials would be harvested" in result.stdout
    for said in ("success", "failure", "abstained: criteria_unclear"):
        assert any(said in line for line in result.stdout.splitlines() if "scene-" in line)
    assert log.read_bytes() == data


def test_with_json_it_prints_one_object(service: Verdicts, log: Path) -> None:
    printed = json.loads(harvest(service, log, "--reducer", "mean", "--json").stdout)
    [one] = printed["logs"]
    assert printed["errors"] == []
    assert (one["path"], one["written"], one["pending"]) == (str(log), True, 0)
    assert one["metrics"] == {
        "before": {"episode_length": 8, "operator": 0},
        "after": {"episode_length": 8, "operator": 0.25},
    }
    assert one["changes"][0] == {
        "scene_id": "scene-0",
        "epoch": 0,
        "before": "none",
        "after": "success",
    }


def test_what_still_waits_is_counted_and_the_rest_is_written(service: Verdicts, log: Path) -> None:
    service.waiting.add("scene-0-0")
    del service.said["scene-0-0"], service.said["scene-0-1"]
    result = harvest(service, log, "--reducer", "mean")
    assert result.exit_code == 1
    assert "2 trials harvested" in result.stdout
    assert "trials without a verdict yet: 1; harvest the log again" in result.stderr
    assert "trials unknown to the service: 1; autograder flush" in result.stderr


def test_waiting_gives_up_in_the_end(service: Verdicts, log: Path) -> None:
    service.waiting.add("scene-0-0")
    del service.said["scene-0-0"]
    result = harvest(service, log, "--reducer", "mean", "--wait", "--timeout", "0.1")
    assert result.exit_code == 1
    assert "3 trials harvested" in result.stdout


def test_a_folder_is_harvested_but_for_the_logs_that_must_stay_as_they_are(
    service: Verdicts, log: Path
) -> None:
    other = run(make_task(scenes=1, epochs=1), None, log.parent, policy="noop")
    (log.parent / "now.live.json").write_text("{}")
    result = harvest(service, log.parent, "--reducer", "mean")
    assert result.exit_code == 1
    assert f"{log}: 4 trials harvested" in result.stdout
    assert f"knows no trial of {other}" in result.stderr
    assert f"fix: submit them first: autograder submit {other}" in result.stderr
    assert "still being written" in result.stderr
    printed = json.loads(harvest(service, log.parent, "--json").stdout)
    assert [one["path"] for one in printed["logs"]] == [str(log)]
    assert [one["path"] for one in printed["errors"]] == [str(other)]


def test_nothing_that_could_be_harvested_is_wrong_use(service: Verdicts, log: Path) -> None:
    result = harvest(service, log)
    assert result.exit_code == 2
    assert "does not tell its reducer" in result.stderr
    assert "--reducer mean|median" in result.stderr
    assert harvest(service, log, "--reducer", "max_of_3").exit_code == 2


def test_a_page_that_shows_the_log_as_it_was_is_named(service: Verdicts, log: Path) -> None:
    log.with_suffix(".html").write_text("<html>")
    result = harvest(service, log, "--reducer", "mean")
    assert f"inspect-robots view {log}" in result.stderr


def test_it_runs_on_the_base_install_and_says_that_no_service_answers(log: Path) -> None:
    result = run_base("harvest", str(log), "--url", "http://127.0.0.1:9")
    assert result.returncode == 3, result.stderr
    assert "no service answers" in result.stderr
