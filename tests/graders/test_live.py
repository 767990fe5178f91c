"""Our graders in the harness: `eval(grader=…)` with a real task and a model that is a stub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import inspect_robots
import numpy as np
import pytest
from inspect_robots.mock.cubepick import CubePickEmbodiment
from inspect_robots.rollout import StepRecord, TrialRecord
from inspect_robots.scene import Scene
from inspect_robots.transcript import Event
from inspect_robots.types import Action, Observation, StepResult
from typer.testing import CliRunner

from grader_service.cli.main import app
from grader_service.graders import operator, resolve_grader, vlm
from grader_service.graders.model import ModelGrader
from grader_service.plugins.stub_service import StubService
from grader_service.providers.stub import StubModel


@pytest.fixture
def model() -> Iterator[StubModel]:
    with StubModel() as running:
        running.script([{"match": {}, "replies": [{"verdict": "success", "rationale": "I see."}]}])
        yield running


@pytest.fixture
def grader(model: StubModel) -> Iterator[ModelGrader]:
    made = vlm(f"openai:m@{model.url}")
    yield made
    made.close()


def picture(level: int) -> np.ndarray[Any, Any]:
    pixels = np.full((32, 32, 3), level, np.uint8)
    pixels[8:24, 8:24] = 255 - level
    return pixels


class Lit(CubePickEmbodiment):
    """The toy world in a light that a judge can see something in."""

    def _render(self) -> Any:
        return picture(40)


def trial(last: Any = None, **changes: Any) -> tuple[TrialRecord, Scene]:
    """Return a live trial of one step, seen by one camera."""
    before = Observation(images={"front": picture(10)}, instruction="Move it.")
    after = Observation(images={"front": picture(90) if last is None else last})
    step = StepRecord(0, before, Action(data=np.zeros(2)), StepResult(observation=after))
    record = TrialRecord(scene_id="s", epoch=0, seed=0, steps=[step], **changes)
    return record, Scene(id="s", instruction="Move the square.")


def test_a_run_of_the_harness_has_our_verdicts_and_settings_in_its_log(
    grader: ModelGrader, model: StubModel, tmp_path: Path
) -> None:
    [log] = inspect_robots.eval(
        "cubepick-reach", "noop", Lit(), grader=grader, log_dir=str(tmp_path)
    )
    assert log.status == "success"
    trials = 0
    for sample in log.samples:
        trials += len(sample.epochs)
        assert set(sample.operator_judgements) == {"success"}
        assert set(sample.judgement_sources) == {"vlm"}
        assert set(sample.operator_notes) == {"I see."}
    assert len(model.log) == trials > 0
    assert (log.eval.grader, log.eval.grader_config["model"]) == ("vlm", "m")
    assert json.loads(next(tmp_path.glob("*.json")).read_text())["status"] == "success"


def test_the_judge_is_told_what_the_policy_was_told(grader: ModelGrader, model: StubModel) -> None:
    grader.grade(*trial())
    [asked] = model.log
    text = "\n".join(asked["texts"])
    assert "Move it." in text
    assert "Move the square." not in text


@pytest.mark.parametrize("ending", ["success", "failure"])
def test_a_definitive_ending_is_adopted_without_a_call(
    grader: ModelGrader, model: StubModel, ending: str
) -> None:
    record, scene = trial(terminated=True, termination_reason=ending)
    grader.grade(record, scene)
    assert record.operator_judgement == ending
    assert inspect_robots.transcript.judgement_source(record) == "embodiment"
    assert model.log == []


def test_a_verdict_of_the_console_stays_as_it_is(grader: ModelGrader, model: StubModel) -> None:
    record, scene = trial(operator_judgement="y")
    grader.grade(record, scene)
    assert (record.operator_judgement, record.events, model.log) == ("y", [], [])


def test_parked_frames_take_the_place_of_the_last_ones_and_the_record_says_so(
    grader: ModelGrader, model: StubModel
) -> None:
    record, scene = trial(parked_observation=Observation(images={"front": picture(200)}))
    grader.grade(record, scene)
    assert record.metadata["graded_frames"] == "parked"
    assert "parked" in "\n".join(model.log[0]["texts"]).lower()


def test_what_abstains_leaves_no_judgement_but_says_why(
    grader: ModelGrader, model: StubModel
) -> None:
    model.script([{"match": {}, "replies": [{"verdict": "abstain"}]}])
    record, scene = trial()
    grader.grade(record, scene)
    assert record.operator_judgement is None
    assert record.metadata["grading_error"].startswith("abstained: ")
    assert isinstance(record.events[-1], Event)


def test_an_outage_leaves_the_trial_ungraded_and_is_said(
    grader: ModelGrader, model: StubModel, capsys: pytest.CaptureFixture[str]
) -> None:
    model.script([{"match": {}, "replies": [{"fault": "500"}]}])
    grader.patience_s = 0
    record, scene = trial()
    grader.grade(record, scene)
    assert record.operator_judgement is None
    assert record.metadata["grading_error"] == "ungraded: provider_unavailable"
    assert "trial left ungraded" in capsys.readouterr().err


def test_an_answer_that_comes_at_a_later_try_counts(grader: ModelGrader, model: StubModel) -> None:
    replies = [{"fault": "429;ra=0"}, {"fault": "429;ra=0"}, {"verdict": "failure"}]
    model.script([{"match": {}, "replies": replies}])
    record, scene = trial()
    grader.grade(record, scene)
    assert record.operator_judgement == "failure"


def test_nothing_that_a_trial_holds_makes_a_grader_raise(
    grader: ModelGrader, capsys: pytest.CaptureFixture[str]
) -> None:
    record, _ = trial()
    grader.grade(record, Scene(id="s", instruction="x", metadata={"rubric": "no-such-rubric"}))
    assert record.metadata["grading_error"] == "ungraded: internal"
    assert "no-such-rubric" in capsys.readouterr().err
    record, scene = trial(last=np.zeros((4, 4, 3)))
    grader.grade(record, scene)
    assert record.metadata["grading_error"] == "ungraded: evidence_missing"


def test_kept_trials_are_whole_and_pass_verification(
    model: StubModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grader = vlm(f"openai:m@{model.url}", keep=tmp_path / "kept")
    grader.grade(*trial())
    grader.grade(*trial(terminated=True, termination_reason="success"))
    grader.close()
    verified = CliRunner().invoke(app, ["verify", str(tmp_path / "kept")])
    assert "2 trials, 1 receipts: no difference" in verified.stdout
    scored = CliRunner().invoke(app, ["score", "--json", str(tmp_path / "kept")])
    for card in json.loads(scored.stdout)["cards"]:
        assert card["judgement"]["verdict"] == "success"
        assert card["scores"]["episode_length"]["value"] == 1


def test_a_folder_that_can_not_be_written_costs_the_kept_copy_only(
    model: StubModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kept").write_text("no folder")
    grader = vlm(f"openai:m@{model.url}", keep=tmp_path / "kept")
    record, scene = trial()
    grader.grade(record, scene)
    grader.close()
    assert record.operator_judgement == "success"
    assert "is not kept" in capsys.readouterr().err


def answers(*lines: str) -> Any:
    """Return what a person types, and then nothing any more."""
    left = list(lines)

    def ask(_prompt: str) -> str:
        if not left:
            raise EOFError
        return left.pop(0)

    return ask


@pytest.mark.parametrize(
    ("said", "judgement", "note"),
    [
        (["y", ""], "success", None),
        (["NO", " it fell "], "failure", "it fell"),
        (["partial", "half way"], "failure", "partial: half way"),
        (["huh", "yes", "ok"], "success", "ok"),
        (["y"], "success", None),
    ],
)
def test_what_a_person_says_stands_on_the_record(
    said: list[str], judgement: str, note: str | None
) -> None:
    record, scene = trial()
    operator(reviewer="ana", ask=answers(*said), say=lambda _: None).grade(record, scene)
    assert (record.operator_judgement, record.operator_note) == (judgement, note)
    assert inspect_robots.transcript.judgement_source(record) == "human"


@pytest.mark.parametrize("said", [[], ["skip"]])
def test_where_nobody_answers_the_record_stays_as_it_is(said: list[str]) -> None:
    record, scene = trial()
    operator(reviewer="ana", ask=answers(*said), say=lambda _: None).grade(record, scene)
    assert (record.operator_judgement, record.events, record.metadata) == (None, [], {})


def test_the_service_grader_hands_a_trial_to_a_service_and_can_wait_for_its_verdict(
    tmp_path: Path,
) -> None:
    with StubService() as running:
        running.script("failure")
        made = resolve_grader("service", url=running.url, wait=True, spool=str(tmp_path))
        record, scene = trial()
        made.grade(record, scene)
        assert record.operator_judgement == "failure"
        assert [received.scene_id for received in running.trials] == ["s"]


def test_ctrl_c_while_a_verdict_is_waited_for_costs_that_verdict_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted(_prompt: str) -> str:
        raise KeyboardInterrupt

    record, scene = trial()
    operator(reviewer="ana", ask=interrupted, say=lambda _: None).grade(record, scene)
    assert record.metadata["grading_error"] == "ungraded: timeout"
    assert "interrupted" in capsys.readouterr().err
