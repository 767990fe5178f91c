"""`autograder grade`: verdicts for trials on disk, which every other command then sees."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import inspect_robots
import pytest
from inspect_robots.registry import resolve
from typer.testing import CliRunner, Result

from grader_service.cli.main import app
from grader_service.providers.stub import StubModel
from grader_service.records.canonical import digest
from grader_service.records.saved import save_trial
from grader_service.records.trial import Event, Scene, TrialRecord
from tests.packaging.test_base_install import run_base
from tests.support.exported import Exported, exported, write_files

ROOT = Path(__file__).parents[2]
TRIALS = ROOT / "examples" / "trials"
COCKPIT = ROOT / "examples" / "a320" / "g01_apu_full.jsonl"


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return exported(tmp_path_factory.mktemp("home"))


@pytest.fixture
def folder(exports: Exported, tmp_path: Path) -> Path:
    """An exported run on disk."""
    return exports.write(tmp_path / "exported")


@pytest.fixture
def model() -> Iterator[StubModel]:
    with StubModel() as running:
        running.script([{"match": {}, "replies": [{"verdict": "success"}]}])
        yield running


def autograder(*arguments: object, answers: str | None = None) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)], input=answers)


def grade(*arguments: object, grader: str, answers: str | None = None) -> Result:
    return autograder("grade", *arguments, "--grader", grader, answers=answers)


def graded(*arguments: object, grader: str, answers: str | None = None) -> dict[str, Any]:
    done = grade(*arguments, "--json", grader=grader, answers=answers)
    value: dict[str, Any] = json.loads(done.stdout)
    return value


def exit_code(result: Result) -> int:
    """Return what the process would exit with: `main` turns errors of ours into their codes."""
    code: int = getattr(result.exception, "exit_code", result.exit_code)
    return code


def verified(folder: Path) -> str:
    return autograder("verify", folder).stdout.splitlines()[-1]


def few(folder: Path, *names: str) -> Path:
    """Return a folder with a trials.json of a few of the sample trials."""
    entries = json.loads((TRIALS / "trials.json").read_text())["trials"]
    chosen = [entry for entry in entries if entry["id"] in names]
    folder.mkdir()
    for name in names:
        (folder / name).symlink_to(TRIALS / name)
    (folder / "trials.json").write_text(json.dumps({"trials": chosen}))
    return folder


def verdicts(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "verdicts.jsonl").read_bytes().splitlines()]


# --- a model ------------------------------------------------------------------------------------


def test_trials_of_a_trials_json_are_graded_verified_and_scored(tmp_path: Path) -> None:
    done = grade(few(tmp_path / "in", "pad-01", "bin-01"), "--stub", "--out", tmp_path / "out",
                 grader="vlm")  # fmt: skip
    assert done.exit_code == 0, done.stderr
    assert "STUB" in done.stdout
    assert verified(tmp_path / "out") == "2 trials, 2 receipts: no difference"
    cards = json.loads(autograder("score", "--json", tmp_path / "out").stdout)["cards"]
    assert {card["judgement"]["source"] for card in cards} == {"stub"}
    assert autograder("reparse", tmp_path / "out").exit_code == 0


def test_a_folder_of_pictures_and_a_run_of_the_harness_are_graded(
    tmp_path: Path, model: StubModel
) -> None:
    folder = tmp_path / "in" / "night-1"
    folder.mkdir(parents=True)
    for name in ("initial_front.jpg", "final_front.jpg"):
        (folder / name).symlink_to(TRIALS / "pad-01" / name)
    (folder / "trial.json").write_text('{"instruction": "Put the cube on the pad."}')
    log = run_with_frames(tmp_path / "logs")
    report = graded(folder, log, "--judge", f"openai:m@{model.url}", "--out", tmp_path / "out",
                    grader="vlm")  # fmt: skip
    assert report["errors"] == []
    assert {one["trial"] for one in report["trials"]} == {
        "night-1, epoch 0", "scene-0, epoch 0", "scene-1, epoch 0",
    }  # fmt: skip
    assert verified(tmp_path / "out").startswith("3 trials, 3 receipts: no difference")


def run_with_frames(folder: Path) -> Path:
    """Return the log of a run that stored its frames."""
    task = resolve("task", "cubepick-reach", num_scenes=2)
    inspect_robots.eval(task, "noop", "cubepick", log_dir=str(folder), store_frames=True)
    return next(folder.glob("*.json"))


def test_a_real_judges_verdict_names_it_and_its_receipt_has_the_reply(
    tmp_path: Path, model: StubModel
) -> None:
    report = graded(few(tmp_path / "in", "pad-01"), "--out", tmp_path / "out",
                    "--judge", f"openai:m@{model.url}", grader="vlm")  # fmt: skip
    [trial] = report["trials"]
    assert (trial["did"], trial["verdict"], trial["source"]) == ("graded", "success", "vlm")
    [verdict] = verdicts(Path(trial["path"]))
    assert verdict["by"] == f"openai:m@{model.url}"
    assert verdict["receipt"]["judge"]["model_asked"] == "m"
    assert verdict["receipt"]["reply"]["wire"] == "openai.chat"


def test_a_cockpit_run_is_graded_in_a_copy_that_ends_in_its_judgement(tmp_path: Path) -> None:
    before = COCKPIT.read_bytes()
    report = graded(COCKPIT, "--stub", "--out", tmp_path / "out", grader="llm_judge")
    [trial] = report["trials"]
    copy = Path(trial["path"]) / "trajectory.jsonl"
    assert COCKPIT.read_bytes() == before
    assert copy.read_bytes().startswith(before)
    assert json.loads(copy.read_bytes().splitlines()[-1])["verdict"] == trial["verdict"]
    assert verified(tmp_path / "out") == "1 trials, 1 receipts: no difference"


def test_what_has_a_verdict_is_left_alone_and_graded_once_more_on_demand(
    tmp_path: Path, model: StubModel
) -> None:
    trials, out = few(tmp_path / "in", "pad-01", "pad-02"), tmp_path / "out"
    judge = ("--judge", f"openai:m@{model.url}", "--out", out)
    grade(trials, *judge, grader="vlm")
    asked = len(model.log)
    assert [one["did"] for one in graded(trials, *judge, grader="vlm")["trials"]] == ["kept"] * 2
    assert len(model.log) == asked == 2
    report = graded(out, *judge, "--again", grader="vlm")
    assert [one["did"] for one in report["trials"]] == ["graded"] * 2
    for trial in report["trials"]:
        rounds = [verdict["receipt"]["round"] for verdict in verdicts(Path(trial["path"]))]
        assert rounds == [0, 1]
    assert verified(out) == "2 trials, 4 receipts: no difference"


def test_an_export_of_a_service_is_graded_where_it_is(folder: Path, model: StubModel) -> None:
    before = verdicts(folder / "abstained")
    done = grade(folder, "--judge", f"openai:m@{model.url}", "--again", grader="vlm")
    # The trial without a last frame can't be judged by anybody.
    assert done.exit_code == 1
    assert "evidence_missing" in done.stdout
    assert verdicts(folder / "abstained")[: len(before)] == before
    newest = verdicts(folder / "abstained")[-1]["receipt"]
    assert newest["trial"] == before[0]["receipt"]["trial"]
    assert newest["rubric"] == before[0]["receipt"]["rubric"]
    assert verified(folder).endswith("no difference")


def test_the_same_trial_named_twice_is_graded_once(tmp_path: Path, model: StubModel) -> None:
    out = tmp_path / "in" / "out"
    trials = few(tmp_path / "in", "pad-01")
    judge = ("--judge", f"openai:m@{model.url}", "--out", out)
    grade(trials, *judge, grader="vlm")
    report = graded(trials, out, trials, *judge, "--again", grader="vlm")
    assert len(report["trials"]) == 1
    assert len(model.log) == 2


def test_a_verdict_that_came_with_the_record_is_adopted_and_nobody_is_asked(
    tmp_path: Path, model: StubModel
) -> None:
    ended = TrialRecord("s", 0, None, terminated=True, termination_reason="failure")
    write_files(tmp_path / "saved", save_trial(ended, Scene("s", "Do it.")))
    judge = ("--judge", f"openai:m@{model.url}")
    [trial] = graded(tmp_path, *judge, grader="vlm")["trials"]
    assert (trial["did"], trial["verdict"], trial["source"]) == ("adopted", "failure", "embodiment")
    [trial] = graded(tmp_path, *judge, "--again", grader="vlm")["trials"]
    assert trial["did"] == "kept"
    assert model.log == []
    assert verified(tmp_path) == "1 trials, 0 receipts: no difference"


def test_a_stub_verdict_does_not_keep_a_real_judge_from_speaking(
    tmp_path: Path, model: StubModel
) -> None:
    trials, out = few(tmp_path / "in", "pad-01"), tmp_path / "out"
    grade(trials, "--stub", "--out", out, grader="vlm")
    [trial] = graded(out, "--judge", f"openai:m@{model.url}", grader="vlm")["trials"]
    assert (trial["did"], trial["source"]) == ("graded", "vlm")


def test_ungraded_trials_are_listed_by_reason_and_tried_again_next_time(
    tmp_path: Path, model: StubModel
) -> None:
    model.script(
        [
            {"match": {"text": "bin"}, "replies": [{"fault": "404"}, {"verdict": "failure"}]},
            {"match": {}, "replies": [{"verdict": "success"}]},
        ]
    )
    trials = few(tmp_path / "in", "pad-01", "bin-01")
    arguments = (trials, "--judge", f"openai:m@{model.url}", "--out", tmp_path / "out")
    done = grade(*arguments, grader="vlm")
    assert done.exit_code == 1
    last = done.stdout.splitlines()[-1]
    assert last == "2 trials: graded 1 (1 success), abstained 0, ungraded 1 (1 provider_rejected)"
    assert sorted(one["did"] for one in graded(*arguments, grader="vlm")["trials"]) == [
        "graded",
        "kept",
    ]


def test_the_rubric_of_the_command_is_used_where_a_trial_has_none(tmp_path: Path) -> None:
    report = graded(few(tmp_path / "in", "pad-01"), "--stub", "--out", tmp_path / "out",
                    "--rubric", "The cube is red.", grader="vlm")  # fmt: skip
    own = json.loads((TRIALS / "trials.json").read_text())["trials"][0].get("rubric")
    used = verdicts(Path(report["trials"][0]["path"]))[0]["receipt"]["rubric"]["text"]
    assert used["id"] == own if own else used["expectation"] == "The cube is red."


def test_trials_of_the_other_kind_are_left_out_and_not_copied(tmp_path: Path) -> None:
    done = grade(few(tmp_path / "in", "pad-01"), COCKPIT, "--stub", "--out", tmp_path / "out",
                 grader="llm_judge")  # fmt: skip
    assert done.exit_code == 0, done.stderr
    assert "left out 1" in done.stdout
    assert len(list((tmp_path / "out").iterdir())) == 1


def test_a_file_that_is_no_trajectory_is_named_and_gets_no_folder(tmp_path: Path) -> None:
    (tmp_path / "notes.jsonl").write_text('{"type": "diary"}\n')
    done = grade(tmp_path / "notes.jsonl", COCKPIT, "--stub", "--out", tmp_path / "out",
                 grader="llm_judge")  # fmt: skip
    assert done.exit_code == 1
    assert "notes.jsonl: there is no meta record" in done.stderr
    assert len(list((tmp_path / "out").iterdir())) == 1


def test_a_script_says_what_the_stub_model_answers(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('[{"match": {}, "replies": [{"verdict": "failure"}]}]')
    report = graded(COCKPIT, "--stub", "--script", script, "--out", tmp_path / "out",
                    grader="llm_judge")  # fmt: skip
    assert [one["verdict"] for one in report["trials"]] == ["failure"]


def test_one_bad_trial_is_named_and_the_others_are_graded(folder: Path, model: StubModel) -> None:
    (folder / "refused" / "record.json").write_bytes(b"{}")
    done = grade(folder, "--judge", f"openai:m@{model.url}", grader="vlm")
    assert done.exit_code == 1
    assert f"error: {folder / 'refused'}" in done.stderr
    assert len(verdicts(folder / "given up")) == 2


@pytest.mark.parametrize(
    ("arguments", "grader", "fix"),
    [
        ([TRIALS, "--stub"], "vlm", "--out"),
        ([TRIALS, "--out", "x"], "vlm", "OPENAI_API_KEY"),
        ([TRIALS, "--out", "x", "--judge", "anthropic:m"], "vlm", "ANTHROPIC_API_KEY"),
        ([TRIALS, "--out", "x"], "nobody", "operator"),
        ([TRIALS, "--out", "x", "--stub"], "operator", "--stub"),
        ([TRIALS, "--out", "x"], "service", "autograder submit"),
        (["nowhere", "--stub"], "vlm", "name a .jsonl file"),
        ([COCKPIT, "--script", "x"], "llm_judge", "--stub"),
        ([COCKPIT, "--stub", "--script", "x"], "llm_judge", "check the path"),
        ([COCKPIT, "--stub", "--out", "x"], "vlm", "llm_judge"),
        ([TRIALS, "--out", "x", "--stub", "--rubric", "robot/no-such"], "vlm", "rubric list"),
    ],
)
def test_wrong_use_is_refused_with_what_to_do(
    arguments: list[object], grader: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = grade(*arguments, grader=grader)
    assert exit_code(result) == 2
    assert fix in str(getattr(result.exception, "fix", ""))


def test_ctrl_c_ends_the_calls_under_way_and_keeps_what_they_bring(tmp_path: Path) -> None:
    trials = few(tmp_path / "in", "pad-01", "pad-02", "pad-03")
    with StubModel(latency=1.0) as model:
        child = subprocess.Popen(
            [sys.executable, "-m", "grader_service.cli.main", "grade", trials, "--grader", "vlm",
             "--judge", f"openai:m@{model.url}", "--out", tmp_path / "out", "--jobs", "1",
             "--json"],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        while not model.log:
            assert child.poll() is None
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        stdout, stderr = child.communicate(timeout=60)
    assert child.returncode == 1, stderr
    assert "Give the same command again to go on" in stderr
    assert [one["did"] for one in json.loads(stdout)["trials"]] == ["graded"]
    assert "1 receipts: no difference" in verified(tmp_path / "out")


# --- a person -----------------------------------------------------------------------------------


def ask(*paths: object, answers: str) -> Result:
    return grade(*paths, "--stdin", "--reviewer", "ana", grader="operator", answers=answers)


def test_a_person_is_shown_the_task_the_criteria_and_where_the_frames_are(folder: Path) -> None:
    trial = folder / "repaired"
    shown = ask(trial, answers="y\nI saw it\n").stderr
    assert "task: Repair the cube." in shown
    assert "rubric robot/" in shown
    for phase in ("first", "last"):
        assert f"{phase} frame, camera front: {trial}/frames/" in shown
    [path] = [line.split(": ")[1] for line in shown.splitlines() if line.startswith("  last frame")]
    assert digest(Path(path).read_bytes()) == Path(path).stem


def test_the_models_verdict_is_shown_on_demand_only(folder: Path) -> None:
    arguments = (folder / "repaired", "--stdin")
    hidden = grade(*arguments, grader="operator", answers="skip\n").stderr
    assert "verdict so far" not in hidden
    shown = grade(*arguments, "--show-verdict", grader="operator", answers="skip\n").stderr
    assert "verdict so far: failure by stub" in shown


@pytest.mark.parametrize(
    ("answers", "verdict", "note"),
    [
        ("y\n\n", "success", None),
        ("n\nit fell\n", "failure", "it fell"),
        ("partial\n\n", "failure", "partial"),
        ("yes\n", "success", None),
    ],
)
def test_a_persons_answer_beats_the_models_and_is_verified(
    folder: Path, answers: str, verdict: str, note: str | None
) -> None:
    assert ask(folder / "repaired", answers=answers).exit_code == 0
    said = verdicts(folder / "repaired")[-1]
    assert (said["verdict"], said["note"]) == (verdict, note)
    assert (said["source"], said["by"]) == ("human", "ana")
    assert verified(folder / "repaired").endswith("no difference")
    [card] = json.loads(autograder("score", "--json", folder / "repaired").stdout)["cards"]
    assert card["judgement"]["verdict"] == verdict
    assert card["judgement"]["source"] == "human"


def test_a_cockpit_run_can_be_judged_by_a_person_as_well(folder: Path) -> None:
    trial = folder / "cut line"
    done = ask(trial, answers="n\n\n")
    assert done.exit_code == 0, done.stderr
    assert "agent's diagnosis: " in done.stderr
    judgement = json.loads((trial / "trajectory.jsonl").read_bytes().splitlines()[-1])
    assert (judgement["verdict"], judgement["source"]) == ("failure", "human")
    assert verified(trial).endswith("no difference")


def test_who_has_been_asked_is_not_asked_again_and_definitive_endings_never_are(
    folder: Path,
) -> None:
    report = graded(folder / "adopted", folder / "regraded", "--stdin", grader="operator",
                    answers="")  # fmt: skip
    assert [one["did"] for one in report["trials"]] == ["kept", "kept"]
    report = graded(folder / "adopted", folder / "regraded", "--stdin", "--again",
                    grader="operator", answers="n\n\n")  # fmt: skip
    assert [one["did"] for one in report["trials"]] == ["kept", "graded"]


def test_answers_that_end_early_are_kept_and_the_next_time_goes_on(folder: Path) -> None:
    trials = [folder / name for name in ("abstained", "repaired", "refused")]
    done = ask(*trials, answers="y\n\nskip\n")
    assert done.exit_code == 1
    assert "nobody answers any more" in done.stderr
    assert verdicts(trials[0])[-1]["source"] == "human"
    report = graded(*trials, "--stdin", grader="operator", answers="n\n\ny\n\n")
    assert [one["did"] for one in report["trials"]] == ["kept", "graded", "graded"]


def test_without_a_terminal_nobody_is_waited_for(folder: Path) -> None:
    done = grade(folder, grader="operator", answers="y\ny\n")
    assert done.exit_code == 1
    assert "standard input is no terminal" in done.stderr
    assert "--stdin" in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_ctrl_c_at_the_terminal_keeps_what_was_answered(folder: Path) -> None:
    trials = [folder / "repaired", folder / "refused"]
    screen, keyboard = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "grader_service.cli.main", "grade", *trials, "--grader", "operator"],
        cwd=ROOT, stdin=keyboard, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    os.write(screen, b"y\nfine\n")
    assert child.stdout is not None
    assert child.stderr is not None
    while not child.stderr.readline().startswith("2 of 2"):
        assert child.poll() is None
    child.send_signal(signal.SIGINT)
    stdout, stderr = child.stdout.read(), child.stderr.read()
    child.wait(60)
    child.stdout.close()
    child.stderr.close()
    os.close(screen)
    os.close(keyboard)
    assert child.returncode == 1, stderr
    assert "1 trials: graded 1 (1 success)" in stdout
    assert "Give the same command again to go on" in stderr
    assert verified(folder).endswith("no difference")


def test_what_a_trial_says_can_not_steer_the_terminal(tmp_path: Path) -> None:
    scene = Scene("s", "Do \x1b[2Jit.", metadata={"rubric": "Done\x1b]0;x\x07 well"})
    files = save_trial(TrialRecord("s", 0, None), scene)
    write_files(tmp_path / "saved", files)
    shown = ask(tmp_path, answers="skip\n").stderr
    assert "\x1b" not in shown
    assert "Do " in shown


def test_the_base_install_lets_a_person_grade(folder: Path) -> None:
    done = run_base("grade", str(folder / "repaired"), "--grader", "operator")
    assert done.returncode == 1, done.stderr
    assert "standard input is no terminal" in done.stderr
    done = run_base("grade", str(folder), "--grader", "vlm")
    assert done.returncode == 2
    assert "robot-autograder[server]" in done.stderr


@pytest.mark.parametrize("source", ["console", "prompt", "a-word-of-the-harness"])
def test_a_verdict_of_the_record_is_adopted_once_however_often_it_is_graded(
    source: str, tmp_path: Path
) -> None:
    record = TrialRecord("s", 0, None, operator_judgement="y")
    record.events.append(Event("operator", 0, {"verdict": "y", "source": source}))
    write_files(tmp_path / "t", save_trial(record, Scene("s", "Do it.")))
    for _ in range(3):
        assert exit_code(ask(tmp_path, answers="y\n\n" * 3)) == 0
    sources = [verdict["source"] for verdict in verdicts(tmp_path / "t")]
    assert sources.count(source) == 1
    assert sources[0] == source
