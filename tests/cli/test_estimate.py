"""`estimate` says what judging would cost, offline, without a key and without a service."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from grader_service.cli.estimate import estimate_command
from grader_service.errors import InputError, RubricError, SetupError, UsageError
from grader_service.records.saved import save_trial
from grader_service.records.trial import Scene, TrialRecord

app = typer.Typer()
app.command()(estimate_command)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def as_json(*arguments: str | Path) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    loaded: dict[str, Any] = json.loads(result.stdout)
    return loaded


def test_the_sample_trials_have_a_range_of_calls_tokens_and_cost(sample_trials: Path) -> None:
    found = as_json(sample_trials, "--judge", "openai:gpt-6-luna")
    assert found["trials"] == 24
    assert found["calls"] == {"min": 24, "max": 48}
    assert found["output_tokens"] == {"min": 24 * 350, "max": 24 * 3 * 4096}
    least, most = float(found["cost"]["min_usd"]), float(found["cost"]["max_usd"])
    assert 0.005 < least < most < 1
    assert found["cost"]["source"].startswith("genai-prices ")
    assert found["errors"] == []


def test_what_people_read_says_the_same_and_what_it_assumes(sample_trials: Path) -> None:
    result = run(sample_trials, "--judge", "anthropic:claude-sonnet-5-5")
    assert result.exit_code == 0
    assert "24 trials, 24 to 48 calls" in result.stdout
    assert "cost $0." in result.stdout
    assert "350 tokens written, no thinking" in result.stdout


@pytest.mark.parametrize(
    ("judge", "says"),
    [
        ("openai:gpt-6.2-sol", "cost unknown: genai-prices"),
        ("openai:gpt-6-luna@http://127.0.0.1:8000/v1", "not the vendor's own"),
        ("openai:qwen3-vl@http://127.0.0.1:8000/v1", "tokens in unknown"),
    ],
)
def test_an_unknown_price_is_said_plainly(sample_trials: Path, judge: str, says: str) -> None:
    result = run(sample_trials, "--judge", judge)
    assert result.exit_code == 0
    assert says in result.stdout
    assert "$" not in result.stdout


def test_a_configured_judge_is_estimated_with_its_own_price_and_budget(
    sample_trials: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = {
        "provider": "openai",
        "model": "gpt-6-luna",
        "base_url": "http://127.0.0.1:8000/v1",
        "max_tokens": 1000,
        "price": {"input_mtok": 0, "output_mtok": 0},
    }
    monkeypatch.setenv("AUTOGRADER_JUDGES", json.dumps({"local": judge}))
    for named in ([], ["--judge", "local"]):
        found = as_json(sample_trials, *named)
        assert found["judge"]["name"] == "local"
        assert found["output_tokens"]["max"] == 24 * 3000
        assert found["cost"] == {"min_usd": "0", "max_usd": "0", "source": "settings"}


@pytest.mark.parametrize("own", [None, "The block is red."])
def test_the_chosen_rubric_is_counted_unless_the_trial_has_its_own(
    sample_trials: Path, tmp_path: Path, own: str | None
) -> None:
    frame = sample_trials / "pad-01" / "final_front.jpg"
    entry = {"id": "a", "instruction": "Go.", "frames": {"last_front": str(frame)}, "rubric": own}
    (tmp_path / "trials.json").write_text(json.dumps([entry]))
    judge = ("--judge", "openai:gpt-6-luna", "--rubric")
    short = as_json(tmp_path, *judge, "The block stands upright.")["input_tokens"]
    long = as_json(tmp_path, *judge, "The block stands upright. " * 200)["input_tokens"]
    if own is None:
        assert long["min"] > short["min"] + 1000
    else:
        assert long == short


def test_cockpit_runs_take_text_alone_so_any_model_has_a_count(sample_trials: Path) -> None:
    found = as_json(sample_trials.parent / "a320", "--judge", "openai:qwen3@http://127.0.0.1:1/v1")
    assert found["trials"] == 3
    assert found["input_tokens"]["min"] > 3 * 500


def test_a_trial_that_brings_its_verdict_along_takes_no_call(tmp_path: Path) -> None:
    scene = Scene(id="s", instruction="Go.")
    record = TrialRecord(scene_id="s", epoch=0, seed=None, operator_judgement="success")
    for path, data in save_trial(record, scene).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    found = as_json(tmp_path, "--judge", "openai:gpt-6-luna")
    assert (found["trials"], found["calls"]) == (1, {"min": 0, "max": 0})


def test_a_trial_that_can_not_be_read_is_named_and_the_others_are_estimated(
    sample_trials: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text("no trajectory")
    result = run(bad, sample_trials, "--judge", "openai:gpt-6-luna", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["trials"] == 24
    [error] = found["errors"]
    assert "bad.jsonl" in error["path"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], SetupError),
        (["--judge", "nobody"], UsageError),
        (["--judge", "openai:gpt-6-luna", "--rubric", "robot/no-such"], RubricError),
    ],
)
def test_wrong_use_says_what_to_do(
    sample_trials: Path, arguments: list[str], error: type[Exception]
) -> None:
    result = run(sample_trials, *arguments)
    assert isinstance(result.exception, error)
    assert result.exception.fix  # type: ignore[attr-defined]


def test_without_a_readable_trial_there_is_no_estimate(tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text("no trajectory")
    result = run(bad, "--judge", "openai:gpt-6-luna")
    assert isinstance(result.exception, InputError)


def test_as_a_command_it_needs_no_key_and_exits_2_for_nothing_usable(
    sample_trials: Path, tmp_path: Path
) -> None:
    def estimate(path: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "grader_service.cli.main", "estimate", str(path)]
        command += ["--judge", "anthropic:claude-haiku-5-5"]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    good = estimate(sample_trials)
    assert (good.returncode, good.stderr) == (0, "")
    missing = estimate(tmp_path / "no")
    assert missing.returncode == 2
    assert "fix: " in missing.stderr
