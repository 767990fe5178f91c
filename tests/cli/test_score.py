"""`autograder score`: offline, per file, with exit codes that mean something."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from grader_service.cli.main import app
from grader_service.records.saved import save_trial
from grader_service.records.trial import (
    Action,
    Observation,
    Scene,
    StepRecord,
    StepResult,
    TrialRecord,
)


def score(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["score", *map(str, arguments)])


def as_json(result: Result) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(result.stdout)
    return value


@pytest.fixture
def runs(tmp_path: Path, data: Path) -> Path:
    """A tree of trajectories: runs/<scenario>/<run>.jsonl."""
    for name in ("g01_apu_full", "g02_apu_skip_isolation", "g12_apu_dangerous", "g05_eng1_full"):
        folder = tmp_path / "runs" / name.split("_")[1]
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(data / "a320" / f"{name}.jsonl", folder)
    return tmp_path / "runs"


def write_record(folder: Path, distance: object = 0.5) -> Path:
    import numpy as np

    step = StepRecord(
        t=0,
        observation=Observation(),
        action=Action(np.zeros(2)),
        result=StepResult(observation=Observation(), info={"distance": distance}),
    )
    record = TrialRecord(scene_id="s1", epoch=0, seed=None, steps=[step])
    for name, content in save_trial(record, Scene("s1", "Do it.")).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def test_json_output_has_cards_aggregate_and_errors(runs: Path) -> None:
    result = score(runs, "--json")
    assert result.exit_code == 0
    output = as_json(result)
    assert output.keys() == {"cards", "aggregate", "errors"}
    assert len(output["cards"]) == 4
    assert {card["kind"] for card in output["cards"]} == {"a320"}
    assert all(Path(card["path"]).exists() for card in output["cards"])
    assert {row["scenario_id"] for row in output["aggregate"]} == {
        "elec-apu-gen-fault",
        "elec-eng1-gen-fault",
    }


def test_a_quoted_pattern_means_what_the_shell_would_make_of_it(runs: Path) -> None:
    spelled = as_json(score(*sorted(runs.rglob("*.jsonl")), "--json"))
    assert as_json(score(f"{runs}/**/*.jsonl", "--json")) == spelled


def test_a_file_that_is_named_twice_is_scored_once(runs: Path) -> None:
    assert len(as_json(score(runs, runs, runs / "apu", "--json"))["cards"]) == 4


def test_aggregate_keeps_the_rows_and_drops_the_cards(runs: Path) -> None:
    whole, rows = as_json(score(runs, "--json")), as_json(score(runs, "--json", "--aggregate"))
    assert rows["cards"] == []
    assert rows["aggregate"] == whole["aggregate"]


def test_several_processes_give_what_one_gives(runs: Path) -> None:
    assert score(runs, "--json", "--jobs", 2).stdout == score(runs, "--json").stdout


def test_out_writes_the_canonical_bytes_in_the_inputs_own_tree(runs: Path, tmp_path: Path) -> None:
    assert score(runs, "--out", tmp_path / "cards").exit_code == 0
    written = sorted(
        str(p.relative_to(tmp_path / "cards")) for p in (tmp_path / "cards").rglob("*.json")
    )
    assert written == [
        "apu/g01_apu_full.scorecard.json",
        "apu/g02_apu_skip_isolation.scorecard.json",
        "apu/g12_apu_dangerous.scorecard.json",
        "eng1/g05_eng1_full.scorecard.json",
    ]
    for path in (tmp_path / "cards").rglob("*.json"):
        assert path.read_bytes().endswith(b"}\n")


def test_an_unsafe_run_is_flagged_and_not_ranked(runs: Path) -> None:
    lines = score(runs).stdout.splitlines()
    unsafe = next(number for number, line in enumerate(lines) if "UNSAFE" in line)
    assert "0.000" not in lines[unsafe].split("UNSAFE")[1]
    assert all("UNSAFE" not in line for line in lines[:unsafe])


def test_explain_says_why_the_scalar_is_what_it_is(runs: Path) -> None:
    result = score(runs / "apu" / "g02_apu_skip_isolation.jsonl", "--explain")
    assert result.exit_code == 0
    assert "0.9" in result.stdout
    assert "apu_gen" in result.stdout


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff\xfe junk",
        b'{"type": "meta"}\n{"type": \n{"type": "final"}\n',
        b'{"type": "meta"}\n{"type": "meta"}\n',
        b'{"type": "final"}\n',
        b"[" * 100_000 + b"\n{}\n",
        b'{"type": "meta", "versions": {"trajectory_schema": "9"}}\n',
    ],
)
def test_a_bad_file_is_named_and_the_rest_is_scored(runs: Path, content: bytes) -> None:
    bad = runs / "bad.jsonl"
    bad.write_bytes(content)
    result = score(runs, "--json")
    assert result.exit_code == 1
    output = as_json(result)
    assert len(output["cards"]) == 4
    assert [error["path"] for error in output["errors"]] == [str(bad)]
    assert output["errors"][0]["error"]
    people = score(runs)
    assert people.exit_code == 1
    assert str(bad) in people.stderr


def test_a_file_that_cannot_be_read_is_named(runs: Path) -> None:
    bad = runs / "gone.jsonl"
    bad.symlink_to(runs / "nowhere.jsonl")
    output = as_json(score(runs, "--json"))
    assert [error["path"] for error in output["errors"]] == [str(bad)]


@pytest.mark.parametrize("argument", ["nowhere", "nowhere/**/*.jsonl"])
def test_nothing_to_score_exits_2(tmp_path: Path, argument: str) -> None:
    result = CliRunner().invoke(app, ["score", str(tmp_path / argument), "--json"])
    assert getattr(result.exception, "exit_code", result.exit_code) == 2


def test_an_unknown_scorer_exits_2_and_names_the_known_ones(runs: Path) -> None:
    result = score(runs, "--scorer", "no_such")
    assert getattr(result.exception, "exit_code", None) == 2
    assert "success_at_end" in str(result.exception)


def test_a_saved_record_is_scored_with_the_scorers_that_are_named(tmp_path: Path) -> None:
    write_record(tmp_path / "trial")
    output = as_json(score(tmp_path, "--json", "--scorer", "reached_goal_state"))
    [card] = output["cards"]
    assert card["kind"] == "robot"
    assert list(card["scores"]) == ["reached_goal_state"]
    assert output["aggregate"] == []


def test_a_scorer_that_raises_is_reported_for_its_file_only(tmp_path: Path) -> None:
    write_record(tmp_path / "good")
    write_record(tmp_path / "bad", distance="far")
    result = score(tmp_path, "--json", "--scorer", "min_distance_to_goal")
    assert result.exit_code == 1
    output = as_json(result)
    assert len(output["cards"]) == 1
    [error] = output["errors"]
    assert error["path"].endswith("bad")
    assert "min_distance_to_goal" in error["error"]


def test_a_record_of_another_schema_is_refused(tmp_path: Path) -> None:
    folder = write_record(tmp_path / "trial")
    record = json.loads((folder / "record.json").read_text())
    (folder / "record.json").write_text(json.dumps(record).replace("trial-record/1", "other/9"))
    result = score(tmp_path, "--json")
    assert result.exit_code == 1
    assert "trial-record/1" in as_json(result)["errors"][0]["error"]
