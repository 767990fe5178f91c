"""`autograder score`: offline, per file, with exit codes that mean something."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from grader_service.cli.main import app
from grader_service.cli.parallel import CHUNK
from grader_service.records.canonical import canonical_bytes, digest
from grader_service.records.saved import Planned, save_trial
from grader_service.records.trial import Scene
from tests.records.examples import record_of


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


def write_record(
    folder: Path, distance: object = 0.5, *, scene: str = "s1", epoch: int = 0, **fields: Any
) -> Path:
    """Write a saved robot trial of one step."""
    record = record_of({"info": {"distance": distance}}, **fields)
    record.scene_id, record.epoch = scene, epoch
    planned = Planned(epochs=2, reducer="max")
    for name, content in save_trial(record, Scene(scene, "Do it."), planned=planned).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def write_manifest(folder: Path) -> None:
    """List the files of a folder as an export does."""
    files = {
        path.relative_to(folder).as_posix(): digest(path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }
    manifest = {"schema": "manifest/1", "files": files, "newest_receipt": None}
    (folder / "manifest.json").write_bytes(canonical_bytes(manifest))


def autograder(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command as its own process."""
    return subprocess.run(
        [sys.executable, "-m", "grader_service.cli.main", *map(str, arguments)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


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


@pytest.mark.parametrize("width", [80, 160])
def test_the_tables_fit_and_nothing_in_them_is_cut(data: Path, width: int) -> None:
    done = autograder("score", data / "a320", COLUMNS=str(width))
    assert done.returncode == 1
    assert "line 8 is not JSON" in done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in done.stdout
    assert lines[0].split() == [
        "run", "cover", "order", "end", "pass", "unsafe", "anti", "extra", "scalar"
    ]  # fmt: skip
    [best] = [line.split() for line in lines if "20261120T100000Z-cddb34" in line]
    assert best == ["20261120T100000Z-cddb34", "1.000", "0.600", "1.000", "yes", "0", "0", "0.920"]


def test_an_unsafe_run_is_flagged_in_its_own_column_and_not_ranked(runs: Path) -> None:
    lines = score(runs).stdout.splitlines()
    where = lines[0].index("unsafe")
    [number] = [number for number, line in enumerate(lines) if "UNSAFE" in line]
    assert lines[number].index("UNSAFE") == where
    assert lines[number].split()[-3:] == ["UNSAFE", "0", "0"]  # no scalar after it
    scalars = [line.split()[-1] for line in lines[:number] if line.startswith(" 2026")]
    assert scalars == ["1.000", "0.900"]


def test_the_tables_end_in_rates_and_means_per_scenario_and_model(runs: Path) -> None:
    lines = score(runs, "--aggregate").stdout.splitlines()
    rows = [line.split()[2:] for line in lines if line.startswith("elec-apu-gen-fault, lab/beta-2")]
    assert rows == [
        ["1", "1", "1", "1.000", "1.000", "0.000", "0.000"],
        ["1", "0.000", "-", "1.000", "1.000", "1.000"],
    ]


def test_a_run_that_was_not_scored_says_what_it_is(data: Path) -> None:
    for case, status in [
        ("g22_apu_provider_error", "provider_error"),
        ("g24_harness_error", "invalid"),
    ]:
        lines = score(data / "a320" / f"{case}.jsonl").stdout.splitlines()
        assert f"  {status}" in [line.rstrip() for line in lines]


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


@pytest.mark.parametrize(
    "options",
    [
        ("--explain", "--json"),
        ("--explain", "--aggregate"),
        ("--explain", "--out", "x"),
        ("--aggregate", "--out", "x"),
        ("--jobs", "-1"),
    ],
)
def test_options_that_contradict_each_other_exit_2(runs: Path, options: tuple[str, ...]) -> None:
    result = score(runs, *options)
    assert getattr(result.exception, "exit_code", result.exit_code) == 2
    assert result.stdout == ""


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


def test_an_argument_that_names_nothing_does_not_stop_the_others(runs: Path) -> None:
    result = score(runs / "nowhere.jsonl", runs, "--json")
    assert result.exit_code == 1
    output = as_json(result)
    assert len(output["cards"]) == 4
    [error] = output["errors"]
    assert error["path"] == str(runs / "nowhere.jsonl")


@pytest.mark.parametrize("kind", ["robot", "a320"])
@pytest.mark.parametrize(
    ("damage", "named", "what"),
    [
        (lambda folder: (folder / "verdicts.jsonl").write_text("\n"), "verdicts.jsonl", "was when"),
        (lambda folder: (folder / "verdicts.jsonl").unlink(), "verdicts.jsonl", "is missing"),
        (lambda folder: (folder / "b").mkdir() or (folder / "b/c").touch(), "b/c", "not listed"),
        (lambda folder: (folder / "manifest.json").write_text("{"), "manifest.json", "not JSON"),
        (lambda folder: (folder / "manifest.json").write_text("{}"), "manifest.json", "manifest/1"),
    ],
    ids=["changed", "missing", "extra", "no manifest", "another manifest"],
)
def test_an_export_that_is_not_as_it_was_exported_is_named_with_the_file(
    runs: Path, kind: str, damage: Any, named: str, what: str
) -> None:
    folder = runs / "apu" / "trial"
    if kind == "robot":
        write_record(folder)
    else:
        folder.mkdir()
        shutil.copy(runs / "eng1" / "g05_eng1_full.jsonl", folder / "trajectory.jsonl")
    (folder / "verdicts.jsonl").touch()
    write_manifest(folder)
    assert len(as_json(score(runs, "--json"))["cards"]) == 5
    damage(folder)
    for mode in ("--json", "--explain"):
        result = score(runs, mode)
        assert result.exit_code == 1
        told = as_json(result)["errors"][0]["error"] if mode == "--json" else result.stderr
        assert str(folder / named) in told
        assert what in told
    assert len(as_json(score(runs, "--json"))["cards"]) == 4


VERDICT = {"id": "v", "source": "vlm", "outcome": "graded", "verdict": "success", "at": "t"}


@pytest.mark.parametrize(
    "verdict",
    [
        {},
        [1],
        VERDICT,
        VERDICT | {"reason": None, "source": []},
        VERDICT | {"reason": None, "verdict": "abstain"},
        VERDICT | {"reason": None, "outcome": []},
        VERDICT | {"reason": None, "primary": 1},
        VERDICT | {"reason": None, "receipt": [1]},
        VERDICT | {"reason": None, "receipt": {"findings": [{"id": "a"}]}},
        VERDICT | {"reason": None, "more": 1},
    ],
)
def test_a_verdict_that_is_none_is_named_with_its_line(tmp_path: Path, verdict: Any) -> None:
    folder = write_record(tmp_path / "trial")
    (folder / "verdicts.jsonl").write_text(f"\n{json.dumps(verdict)}\n")
    result = score(tmp_path, "--json")
    assert result.exit_code == 1
    [error] = as_json(result)["errors"]
    assert f"{folder}: line 2 of verdicts.jsonl is no verdict" in error["error"]


def test_robot_trials_end_in_means_over_scenes_with_what_they_rest_on(tmp_path: Path) -> None:
    write_record(tmp_path / "a0", 0.25, scene="a", operator_judgement="success")
    write_record(tmp_path / "a1", 0.75, scene="a", epoch=1, operator_judgement="no")
    write_record(tmp_path / "b0", 0.25, scene="b", operator_judgement="no")
    write_record(tmp_path / "b1", 9.0, scene="b", epoch=1, status="cancelled")
    for options in ((), ("--aggregate",)):
        result = score(
            tmp_path, "--scorer", "operator", "--scorer", "min_distance_to_goal", *options
        )
        assert result.exit_code == 0
        lines = result.stdout.splitlines()
        # Epochs are reduced by the maximum, as these trials' run was planned.
        assert "min_distance_to_goal  0.500     2/2       3          0" in lines
        assert "operator              0.500     2/2       3          0" in lines
        assert "trials that did not run to their end, left out of the means: 1" in lines
        assert (lines[0].split()[:2] == ["scene", "epoch"]) == (not options)


def test_a_mean_of_verdicts_needs_a_verdict_on_most_trials_and_none_of_a_stub(
    tmp_path: Path,
) -> None:
    def operator_row() -> list[str]:
        lines = score(tmp_path, "--aggregate").stdout.splitlines()
        [row] = [line.split() for line in lines if line.startswith("operator")]
        return row[1:]

    for number in range(4):
        write_record(tmp_path / f"{number}", scene=f"s{number}", operator_judgement="success")
    assert operator_row() == ["1.000", "4/4", "4", "0"]
    write_record(tmp_path / "4", scene="s4", metadata={"grading_error": "ungraded: timeout"})
    assert operator_row() == ["1.000", "4/5", "5", "1"]
    write_record(tmp_path / "5", scene="s5", metadata={"grading_error": "ungraded: timeout"})
    assert operator_row() == ["-", "4/6", "6", "2"]
    verdict = VERDICT | {"reason": None, "source": "stub"}
    for number in range(4, 6):
        (tmp_path / f"{number}" / "verdicts.jsonl").write_text(json.dumps(verdict))
    assert operator_row() == ["STUB", "6/6", "6", "0"]


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_no_text_of_a_run_can_spoil_the_output_whatever_the_locale(
    runs: Path, tmp_path: Path, encoding: str
) -> None:
    head, *rest = (runs / "apu" / "g01_apu_full.jsonl").read_text("utf-8").splitlines()
    meta = json.loads(head)
    meta["adapter"]["model"] = "发 \ud800 [red]x[/] :smile: \x1b[2J"
    args = {"big": 10**400, "nan": float("nan"), "half": "\udc80"}
    call = {"type": "tool_call", "name": "tune", "args": args, "is_error": True}
    lines = [json.dumps(meta), json.dumps(call), *rest]
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/odd-\xff.jsonl")
    Path(odd).write_text("\n".join(lines), "utf-8")

    done = autograder("score", odd, "--json", PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr
    [card] = json.loads(done.stdout)["cards"]
    assert card["path"] == odd
    assert card["model"] == "发 \ufffd [red]x[/] :smile: \x1b[2J"
    assert card["judge_bundle"]["not_scored"][0]["args"] == {
        "big": {"$int": "1" + "0" * 400},
        "nan": "NaN",
        "half": "\ufffd",
    }
    for mode in ((), ("--explain",), ("--aggregate",)):
        done = autograder("score", odd, *mode, PYTHONIOENCODING=encoding)
        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stdout
        assert "[red]x[/] :smile:" in done.stdout


PEAK = """
import sys
from grader_service.cli.main import app
app(["score", "--aggregate", "--json", *sys.argv[1:]], standalone_mode=False)
[peak] = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(peak, file=sys.stderr)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of the memory is read from /proc")
@pytest.mark.parametrize("jobs", [1, 2])
def test_aggregating_keeps_less_than_two_kilobytes_of_each_run(
    tmp_path: Path, data: Path, jobs: int
) -> None:
    peaks = []
    for count in (500, 3000):
        folder = tmp_path / str(count)
        folder.mkdir()
        for number in range(count):
            os.link(data / "a320" / "g01_apu_full.jsonl", folder / f"{number}.jsonl")
        done = subprocess.run(
            [sys.executable, "-c", PEAK, str(folder), "--jobs", str(jobs)],
            check=True,
            capture_output=True,
            text=True,
        )
        [row] = json.loads(done.stdout)["aggregate"]
        assert row["n"] == count
        peaks.append(int(done.stderr))  # in kB
    assert peaks[1] - peaks[0] < 5000


def test_ctrl_c_ends_all_processes_without_a_word(tmp_path: Path, data: Path) -> None:
    for number in range(4 * CHUNK):
        os.link(data / "a320" / "g01_apu_full.jsonl", tmp_path / f"{number:04}.jsonl")
    (tmp_path / "0000.jsonl").unlink()
    os.mkfifo(tmp_path / "0000.jsonl")  # reading it takes for ever
    command = [sys.executable, "-m", "grader_service.cli.main", "score", str(tmp_path)]
    child = subprocess.Popen(
        [*command, "--jobs", "2"],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Where the tests run in the background, Ctrl-C is ignored, and children inherit that.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    with (tmp_path / "0000.jsonl").open("wb"):  # waits until a process reads it
        os.killpg(child.pid, signal.SIGINT)
        _, told = child.communicate(timeout=30)  # until the last process has closed it
    assert child.returncode == 130
    assert told == ""


def test_a_terminal_shows_how_far_it_is_and_a_pipe_gets_nothing_of_it(runs: Path) -> None:
    reader, terminal = os.openpty()
    command = [sys.executable, "-m", "grader_service.cli.main", "score", str(runs), "--json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=terminal)
    os.close(terminal)
    shown = os.read(reader, 100_000).decode()
    os.close(reader)
    assert "scoring" in shown
    assert len(json.loads(done.stdout)["cards"]) == 4
    assert autograder("score", runs, "--json").stderr == ""
