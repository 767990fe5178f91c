"""The reducer of a log is established before a number in it is changed, or the log is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from inspect_robots import Scene, Task
from inspect_robots.registry import task as register_task

from grader_service.client.harvest.log_file import read_log
from grader_service.client.harvest.reducer import find_reducer, registered_task
from grader_service.errors import InputError, UsageError
from tests.support.harness_logs import FaultyPolicy, make_task, run


def logged(folder: Path, **options: Any) -> Any:
    policy = options.pop("policy", None)
    return read_log(run(make_task(**options), None, folder, policy=policy))


def edited(log: Any, **changes: Any) -> Any:
    value = json.loads(log.path.read_text())
    value["eval"] |= changes
    log.path.write_text(json.dumps(value))
    return read_log(log.path)


def test_a_registered_task_tells_it(tmp_path: Path) -> None:
    @register_task("tests/told")
    def factory(scenes: int = 3) -> Any:
        return make_task(name="tests/told", reducer="pass_at_2", scenes=scenes)

    log = logged(tmp_path, name="tests/told", reducer="pass_at_2")
    task = registered_task(log)
    assert task is not None
    assert [scorer.name for scorer in task.scorers] == ["operator", "episode_length"]
    assert find_reducer(log, task) == "pass_at_2"
    # A task whose arguments made other scenes is another task.
    other = logged(tmp_path / "more", name="tests/told", reducer="pass_at_2", scenes=4)
    assert registered_task(other) is None
    with pytest.raises(InputError, match="does not tell its reducer"):
        find_reducer(other, registered_task(other))


def test_a_task_that_can_not_be_made_here_tells_nothing(tmp_path: Path) -> None:
    @register_task("tests/broken")
    def factory() -> Any:
        raise RuntimeError("no robot")

    assert registered_task(logged(tmp_path, name="tests/broken")) is None
    assert registered_task(logged(tmp_path / "none", name="nobody/knows")) is None


def test_the_command_line_makes_up_tasks_that_are_reduced_by_their_mean(tmp_path: Path) -> None:
    log = logged(tmp_path, name="adhoc", epochs=3)
    assert find_reducer(log, None) == "mean"
    assert find_reducer(edited(log, task="auto"), None) == "mean"


def test_with_one_trial_for_each_scene_nothing_depends_on_it(tmp_path: Path) -> None:
    assert find_reducer(logged(tmp_path, reducer="max", epochs=1), None) == "mean"


def test_an_error_in_the_log_may_name_it(tmp_path: Path) -> None:
    log = logged(tmp_path, reducer="pass_at_5", policy=FaultyPolicy((1,)))
    assert find_reducer(log, None) == "pass_at_5"


@pytest.mark.parametrize("reducer", ["mean", "max", "min", "median", "mode", "pass_at_2"])
def test_only_one_that_gives_every_saved_value_is_taken(tmp_path: Path, reducer: str) -> None:
    log = logged(tmp_path, reducer=reducer, max_steps=20)
    assert find_reducer(log, None, given=reducer) == reducer
    for other in {"mean", "max", "min", "median", "mode", "pass_at_2"} - {reducer}:
        with pytest.raises(InputError, match=f"was not reduced by '{other}'") as caught:
            find_reducer(log, None, given=other)
        assert "--reducer" in str(caught.value.fix)


def test_a_scene_that_the_reducer_should_have_failed_on_speaks_against_it(tmp_path: Path) -> None:
    log = logged(tmp_path, reducer="max", epochs=2)
    with pytest.raises(InputError, match=r"was not reduced by 'pass_at_5': .* not none"):
        find_reducer(log, None, given="pass_at_5")


def test_numbers_that_json_lacks_decide_nothing(tmp_path: Path) -> None:
    task = Task("t", [Scene("s", "x")], ["min_distance_to_goal", "operator"], max_steps=2, epochs=2)
    log = read_log(run(task, None, tmp_path, policy="noop", embodiment="cubepick"))
    value = json.loads(log.path.read_text())
    for epoch in value["samples"][0]["epochs"]:
        epoch["min_distance_to_goal"] = None
    value["samples"][0]["reduced"]["min_distance_to_goal"] = None
    log.path.write_text(json.dumps(value))
    assert find_reducer(read_log(log.path), None, given="mean") == "mean"


def test_a_name_that_is_no_reducer_is_refused(tmp_path: Path) -> None:
    for name in ("average", "pass_at_0"):
        with pytest.raises(UsageError, match=name):
            find_reducer(logged(tmp_path / name), None, given=name)
