"""Good and bad days of a harness, in milliseconds: no key, no network, no service.

The fixture `autograder_service` comes with robot-autograder; there is nothing to set up.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import inspect_robots
import pytest
from inspect_robots.registry import resolve
from typer.testing import CliRunner

from grader_service.cli.main import app

if TYPE_CHECKING:
    from grader_service.plugins.stub_service import StubService


def run_bench(folder: Path) -> Any:
    """Run the benchmark: what a harness of one's own does, here with a toy robot."""
    [log] = inspect_robots.eval(
        resolve("task", "cubepick-reach", num_scenes=2),
        "noop",
        "cubepick",
        log_dir=str(folder),
        grader="autograder",
    )
    return log


def autograder(*arguments: str | Path) -> int:
    """Run a command of `autograder` and return its exit code."""
    return CliRunner().invoke(app, [*map(str, arguments)]).exit_code


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the robot wait for its verdicts, as `-G wait=true` does."""
    monkeypatch.setenv("AUTOGRADER_WAIT", "true")


@pytest.mark.usefixtures("waiting")
def test_verdicts_are_in_the_log_of_a_run_that_waits_for_them(
    autograder_service: StubService, tmp_path: Path
) -> None:
    autograder_service.script("failure", scene="scene-1", note="The cube was not reached.")
    log = run_bench(tmp_path)
    assert [sample.operator_judgements for sample in log.samples] == [("success",), ("failure",)]
    assert log.samples[1].operator_notes == ("The cube was not reached.",)


@pytest.mark.usefixtures("waiting")
def test_what_no_judge_could_tell_is_no_failure_of_the_robot(
    autograder_service: StubService, tmp_path: Path
) -> None:
    autograder_service.script("ungraded: provider_unavailable", "abstained: criteria_unclear")
    log = run_bench(tmp_path)
    errors = [sample.trial_metadata[0]["grading_error"] for sample in log.samples]
    assert errors == ["ungraded: provider_unavailable", "abstained: criteria_unclear"]
    assert [sample.operator_judgements for sample in log.samples] == [(None,), (None,)]


def test_verdicts_that_come_after_the_run_are_harvested(
    autograder_service: StubService, tmp_path: Path
) -> None:
    with autograder_service.hold():
        run_bench(tmp_path)
        autograder_service.wait_for(2)
        [path] = tmp_path.glob("*.json")
        assert autograder("harvest", path) == 1, "both trials are still pending"
    assert autograder("harvest", path) == 0
    samples = json.loads(path.read_text())["samples"]
    assert [sample["operator_judgements"] for sample in samples] == [["success"], ["success"]]


@pytest.mark.parametrize("how", ["503", "refused"])
def test_an_outage_costs_neither_the_log_nor_a_trial(
    autograder_service: StubService, tmp_path: Path, how: Literal["503", "refused"]
) -> None:
    with autograder_service.down(how):
        log = run_bench(tmp_path)
    assert log.status == "success"
    autograder("flush")
    assert {trial.scene_id for trial in autograder_service.wait_for(2)} == {"scene-0", "scene-1"}


@pytest.mark.usefixtures("waiting")
def test_a_trial_that_the_service_refuses_for_good_is_marked(
    autograder_service: StubService, tmp_path: Path
) -> None:
    autograder_service.script("refused: no such rubric", scene="scene-0")
    log = run_bench(tmp_path)
    marker = log.samples[0].trial_metadata[0]["autograder"]
    assert marker["state"] == "rejected"
    assert "no such rubric" in marker["reason"]
    assert log.samples[1].operator_judgements == ("success",)


@pytest.mark.usefixtures("waiting")
def test_what_is_sent_are_first_and_last_frames_and_the_whole_record(
    autograder_service: StubService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOGRADER_RUN", "night-7")
    run_bench(tmp_path)
    for received in autograder_service.trials:
        assert received.run == "night-7"
        assert received.frames.keys() == {("first", "top"), ("last", "top")}
        assert len(received.trial.record.steps) > 1
