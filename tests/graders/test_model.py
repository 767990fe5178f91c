"""Graders that ask a model: whom they leave alone, and how long they ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grader_service.errors import InputError, TryLaterError
from grader_service.graders import llm_judge, vlm
from grader_service.graders.model import ModelGrader
from grader_service.graders.trial import Trial, new_verdict
from grader_service.providers.stub import StubModel
from grader_service.records.canonical import digest
from grader_service.records.trajectory import parse_trajectory
from grader_service.records.verdict import Decision

COCKPIT = (Path(__file__).parents[2] / "examples/a320/g01_apu_full.jsonl").read_bytes()


@pytest.fixture
def model() -> Iterator[StubModel]:
    with StubModel() as running:
        yield running


@pytest.fixture
def grader(model: StubModel) -> Iterator[ModelGrader]:
    made = llm_judge(f"openai:m@{model.url}")
    yield made
    made.close()


def cockpit() -> Trial:
    record = parse_trajectory(COCKPIT)
    return Trial(id="t", kind="a320", record=record, record_digest=digest(COCKPIT))


@pytest.mark.parametrize(
    ("source", "decision", "graded"),
    [
        ("vlm", Decision.graded("failure"), True),
        ("vlm", Decision.abstained("criteria_unclear"), True),
        ("vlm", Decision.ungraded("timeout"), False),
        ("human", Decision.graded("success"), True),
        ("stub", Decision.graded("success"), False),
    ],
)
def test_a_trial_is_asked_about_until_somebody_has_spoken(
    grader: ModelGrader, source: str, decision: Decision, graded: bool
) -> None:
    assert not grader.has_graded([])
    assert grader.has_graded([new_verdict(source, decision)]) == graded


def test_a_provider_that_is_away_is_asked_again_within_the_patience_only(
    grader: ModelGrader, model: StubModel
) -> None:
    model.script([{"match": {}, "replies": [{"fault": "429;ra=0"}, {"verdict": "success"}]}])
    assert grader.verdict(cockpit()).verdict == "success"
    assert len(model.log) == 2
    model.script([{"match": {}, "replies": [{"fault": "429;ra=30"}]}])
    grader.patience_s = 20
    ended = grader.verdict(cockpit())
    assert (ended.outcome, ended.reason) == ("ungraded", "provider_unavailable")
    assert ended.receipt is not None
    assert ended.receipt["outcome"]["reason"] == "provider_unavailable"
    assert len(model.log) == 3


def test_one_that_is_told_to_stop_does_not_wait_for_another_try(
    grader: ModelGrader, model: StubModel
) -> None:
    model.script([{"match": {}, "replies": [{"fault": "429;ra=30"}]}])
    grader.stop.set()
    with pytest.raises(TryLaterError):
        grader.verdict(cockpit())
    assert len(model.log) == 1


def test_a_rubric_of_the_other_kind_is_refused(model: StubModel) -> None:
    grader = llm_judge(f"openai:m@{model.url}", rubric="robot/stack")
    with pytest.raises(InputError, match="is for frames"):
        grader.verdict(cockpit())
    grader.close()


def test_what_the_harness_logs_of_a_grader_is_plain_and_has_no_secret(model: StubModel) -> None:
    grader = vlm(f"openai:m@{model.url}", rubric="robot/stack")
    config = grader.config()
    assert config.pop("judge_digest") == grader.judge.digest
    assert config == {
        "judge": f"openai:m@{model.url}",
        "provider": "openai",
        "model": "m",
        "rubric": "robot/stack",
        "stub": False,
    }
    grader.close()
