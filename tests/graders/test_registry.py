"""Graders are found by name: ours, those that a decorator registers, those of other packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from grader_service.errors import SetupError, UsageError
from grader_service.graders import Grader, grader, grader_names, resolve_grader

OURS = ["llm_judge", "operator", "service", "vlm"]

PLUGIN = """
class Scale:
    name = "scale"
    def grade(self, record, scene):
        record.operator_judgement = "success"

def fake_operator():
    raise AssertionError("a plug-in can't take the place of one of ours")

def nothing():
    return 5
"""
ENTRY_POINTS = """
[robot_autograder.graders]
scale = lab_graders:Scale
operator = lab_graders:fake_operator
nothing = lab_graders:nothing
broken = lab_graders.missing:x
"""
PROGRAM = """
import warnings
from grader_service.errors import UsageError
from grader_service.graders import grader_names, resolve_grader
from grader_service.records.trial import TrialRecord
record = TrialRecord("a", 0, None)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    resolve_grader("scale").grade(record, None)
    print(record.operator_judgement, ",".join(grader_names()))
print([str(w.message).split(":")[0] for w in caught])
print(resolve_grader("operator").name)
try:
    resolve_grader("nothing")
except UsageError as error:
    print(error.message)
"""


def test_ours_are_all_registered() -> None:
    assert set(OURS) <= set(grader_names())


def test_the_grader_of_a_person_has_the_name_and_the_method_of_the_harness_protocol() -> None:
    made = resolve_grader("operator", reviewer="ana")
    assert made.name == "operator"
    assert isinstance(made, Grader)


def test_an_unknown_grader_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        resolve_grader("human")
    assert "operator" in str(caught.value.fix)


def test_a_decorated_factory_is_found_under_its_name_with_its_options() -> None:
    @grader("lab-lamp")
    class Lamp:
        name = "lab-lamp"

        def __init__(self, colour: str = "red") -> None:
            self.colour = colour

        def grade(self, record: Any, scene: Any) -> None: ...

    made = resolve_grader("lab-lamp", colour="green")
    assert isinstance(made, Lamp)
    assert made.colour == "green"


def test_graders_of_other_packages_are_found_and_a_broken_one_only_warns(tmp_path: Path) -> None:
    (tmp_path / "lab_graders.py").write_text(PLUGIN)
    info = tmp_path / "lab_graders-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lab-graders\nVersion: 1\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={"PYTHONPATH": f"{tmp_path}:{Path.cwd()}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, warned, ours, refused = done.stdout.splitlines()
    assert first.startswith("success ")
    assert {*OURS, "scale"} <= set(first.split()[1].split(","))
    assert warned == "[\"grader 'broken' of 'lab_graders.missing\"]"
    assert ours == "operator"
    assert refused == "the factory of 'nothing' gives no grader"


@pytest.mark.parametrize("name", ["vlm", "llm_judge"])
def test_without_a_key_a_model_grader_says_how_to_get_one(name: str) -> None:
    with pytest.raises(SetupError) as caught:
        resolve_grader(name)
    assert "OPENAI_API_KEY" in str(caught.value.fix)


def test_a_judge_whose_key_is_missing_is_named_with_the_variable_to_set() -> None:
    with pytest.raises(SetupError) as caught:
        resolve_grader("vlm", judge="anthropic:claude-haiku-5-5")
    assert "anthropic" in str(caught.value)
