"""The real grader, a real service and real tasks: what is harvested is what waiting gives."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from inspect_robots import eval as run_eval
from inspect_robots.registry import resolve
from inspect_robots.registry import task as register_task
from inspect_robots.scorer import Score as UpstreamScore
from typer.testing import CliRunner

from examples.lit_kitchen import LitKitchen
from grader_service.cli.main import app
from grader_service.providers.stub import StubModel
from tests.plugins.harness.rig import INSTRUCTIONS, SCRIPT, Rig, bench, grader, settle
from tests.support.harness_logs import comparable
from tests.support.judges import judge_at
from tests.support.servers import start_redis
from tests.support.stack import Stack, running


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    home = tmp_path_factory.mktemp("service")
    with (
        StubModel() as model,
        start_redis(tmp_path_factory.mktemp("redis")) as redis,
        running(home, redis.url, {"main": judge_at(model.url)}) as service,
    ):
        model.script(SCRIPT)
        yield service


class PerStep:
    """A score that follows from the verdict and the steps."""

    name = "per_step"

    def __call__(self, record: Any, _target: Any) -> UpstreamScore:
        success = record.operator_judgement == "success"
        return UpstreamScore(success / len(record.steps))


@register_task("tests/cups")
def cups() -> Any:
    scorers: list[Any] = ["operator", PerStep()]
    return bench(INSTRUCTIONS, epochs=2, reducer="max", name="tests/cups", scorers=scorers)


def both(
    stack: Stack, folder: Path, run: str, task: Any, *, policy: str, embodiment: Callable[[], Any]
) -> list[Path]:
    """Run a task waiting for verdicts, and without waiting; return both logs."""
    logs: list[Path] = []
    for mode in ("wait", "deferred"):
        made = grader(stack.url, folder / f"spool-{mode}", run=f"{run}-{mode}", wait=mode == "wait")
        where = folder / mode
        run_eval(task, policy, embodiment(), log_dir=str(where), grader=made)
        assert settle(made) == 0
        logs += where.glob("*.json")
    stack.wait_for(f"{run}-deferred")
    return logs


def without_ids(path: Path) -> dict[str, Any]:
    value = comparable(path)
    value["eval"].pop("grader_config")
    for sample in value["samples"]:
        for metadata in sample["trial_metadata"]:
            for key in ("client_id", "run", "trial"):
                metadata["autograder"].pop(key)
    return value


def harvest(stack: Stack, *arguments: object) -> None:
    result = CliRunner().invoke(app, ["harvest", "--url", stack.url, *map(str, arguments)])
    assert result.exit_code == 0, result.output


def test_verdicts_of_every_kind_come_back_with_scores_of_whole_records(
    stack: Stack, tmp_path: Path
) -> None:
    waited, deferred = both(
        stack, tmp_path, "cups", cups(), policy="noop", embodiment=lambda: Rig(parks=True)
    )
    kinds = {
        (metadata["autograder"]["outcome"], metadata.get("graded_frames"))
        for sample in json.loads(waited.read_text())["samples"]
        for metadata in sample["trial_metadata"]
    }
    assert kinds == {("graded", "parked"), ("abstained", None), ("ungraded", None)}
    harvest(stack, deferred)
    assert without_ids(deferred) != without_ids(waited)
    harvest(stack, deferred, "--scorer", "per_step")
    assert without_ids(deferred) == without_ids(waited)
    data = deferred.read_bytes()
    harvest(stack, deferred)
    assert deferred.read_bytes() == data


def test_a_kitchenbench_log_needs_no_hint(stack: Stack, tmp_path: Path) -> None:
    waited, deferred = both(
        stack,
        tmp_path,
        "pasta",
        resolve("task", "kitchenbench/pour_pasta"),
        policy="kitchen_noop",
        embodiment=LitKitchen,
    )
    harvest(stack, deferred)
    assert without_ids(deferred) == without_ids(waited)
    assert json.loads(deferred.read_text())["results"]["metrics"]["task_success"] == 1.0


def test_a_run_of_before_this_project_is_submitted_judged_and_harvested(
    stack: Stack, tmp_path: Path
) -> None:
    task = bench(("Lift the cup", "Miss the cup"), epochs=2, name="adhoc")
    run_eval(task, "noop", Rig(), log_dir=str(tmp_path / "logs"), store_frames=True)
    [log] = (tmp_path / "logs").glob("*.json")
    frames = (tmp_path / "logs/frames").rename(tmp_path / "frames")
    submit = ["submit", "--url", stack.url, "--run", "old", "--wait", str(log)]
    lost = CliRunner().invoke(app, submit)
    assert lost.exit_code == 2
    assert "fix: say where they are now: --frames-dir DIR" in lost.stderr
    for _ in range(2):
        result = CliRunner().invoke(app, [*submit, "--frames-dir", str(frames)])
        assert result.exit_code == 0, result.output
        assert "run old: 4 trials: graded 4 (2 success, 2 failure)" in result.stdout
    harvest(stack, log)
    value = json.loads(log.read_text())
    assert [sample["operator_judgements"] for sample in value["samples"]] == [
        ["success", "success"],
        ["failure", "failure"],
    ]
    assert value["results"]["metrics"] == {"operator": 0.5, "episode_length": 3.0}
