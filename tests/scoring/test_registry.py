"""Scorers are found by name: ours, those that a decorator registers, those of other packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from grader_service.errors import UsageError
from grader_service.scoring import (
    Score,
    Scorer,
    episode_length,
    resolve_scorer,
    resolve_scorers,
    scorer,
    scorer_names,
)

OURS = [
    "criteria_met",
    "episode_length",
    "min_distance_to_goal",
    "operator",
    "reached_goal_state",
    "success_at_end",
    "vlm",
]

PLUGIN = """
from grader_service.scoring import Score

class Loudness:
    name = "loudness"
    def __call__(self, record, target):
        return Score(len(record.events))

def fake_operator():
    raise AssertionError("a plug-in can't take the place of one of ours")

def nothing():
    return 5
"""
ENTRY_POINTS = """
[grader_service.scorers]
loudness = lab_scorers:Loudness
operator = lab_scorers:fake_operator
nothing = lab_scorers:nothing
broken = lab_scorers.missing:x
"""
PROGRAM = """
import warnings
from grader_service.errors import UsageError
from grader_service.records.trial import TrialRecord
from grader_service.scoring import resolve_scorer, resolve_scorers, scorer_names
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(resolve_scorer("loudness")(TrialRecord("a", 0, None), None).value)
    print(",".join(scorer_names()))
print([str(w.message).split(":")[0] for w in caught])
print(resolve_scorer("operator").name)
try:
    resolve_scorer("nothing")
except UsageError as error:
    print(error.message)
"""


def test_ours_are_all_registered_under_their_names() -> None:
    assert [name for name in scorer_names() if name in OURS] == OURS
    for name, made in zip(OURS, resolve_scorers(OURS), strict=True):
        assert made.name == name
        assert isinstance(made, Scorer)


def test_options_go_to_the_factory() -> None:
    near = resolve_scorer("reached_goal_state", threshold=0.2, name="near")
    assert near.name == "near"
    assert resolve_scorer("episode_length") == resolve_scorer("episode_length") == episode_length()


def test_the_decorator_registers_a_factory_under_its_own_or_another_name() -> None:
    class Constant:
        name = "constant"

        def __call__(self, record: Any, target: Any) -> Score:  # noqa: ARG002  # the signature
            return Score(1)

    @scorer()
    def constant_of_a_test() -> Scorer:
        return Constant()

    assert scorer("second_constant_of_a_test")(constant_of_a_test) is constant_of_a_test
    for name in ("constant_of_a_test", "second_constant_of_a_test"):
        assert isinstance(resolve_scorer(name), Constant)
        assert name in scorer_names()


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no scorer named 'sucess_at_end'") as caught:
        resolve_scorers(["operator", "sucess_at_end"])
    assert caught.value.exit_code == 2
    assert "success_at_end" in str(caught.value.fix)


def test_other_packages_bring_scorers_and_a_broken_one_only_warns(tmp_path: Path) -> None:
    (tmp_path / "lab_scorers.py").write_text(PLUGIN)
    info = tmp_path / "lab_scorers-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lab-scorers\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    root = Path(__file__).parent.parent.parent
    printed = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={"PYTHONPATH": f"{root}:{tmp_path}"},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    assert printed[0] == "0"
    assert set(printed[1].split(",")) >= {*OURS, "loudness", "nothing"}
    assert "broken" not in printed[1]
    assert printed[2:] == [
        "[\"scorer 'broken' of 'lab_scorers.missing\"]",
        "operator",
        "the factory of 'nothing' gives no scorer",
    ]
