"""The grader in the real harness, with a real service."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import inspect_robots
import numpy as np
import pytest
from inspect_robots.errors import ConfigError, EmbodimentFault, SafetyAbort
from inspect_robots.rollout import TrialRecord
from inspect_robots.scene import Scene
from inspect_robots.transcript import operator_event

from grader_service.client.spool import Spool
from grader_service.providers.stub import StubModel
from grader_service.records.saved import load_trial
from grader_service.scoring import operator_scorer
from tests.client.conftest import serving
from tests.plugins.harness.rig import (
    INSTRUCTIONS,
    Rig,
    bench,
    grader,
    saved_log,
    settle,
    trials_in,
)
from tests.support.stack import Stack

REDUCERS = ["mean", "max", "min", "median", "mode", "pass_at_2", "pass_at_5"]


def run_name() -> str:
    return f"run-{uuid4().hex[:8]}"


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return tmp_path / "logs"


def test_the_robot_goes_on_and_the_verdicts_are_at_the_service(
    stack: Stack, spool: Path, logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_name()
    made = grader(stack.url, spool, run=run)
    inspect_robots.eval(bench(), "noop", Rig(), grader=made, log_dir=str(logs))
    trials = trials_in(saved_log(logs))
    assert [trial["judgement"] for trial in trials] == [None] * 4
    for trial in trials:
        assert trial["marker"].keys() == {
            "client_id", "run", "trial", "state", "outcome", "reason"
        }  # fmt: skip
        assert trial["marker"]["state"] == "pending"
        assert trial["marker"]["run"] == run
        assert "grading_error" not in trial["metadata"]
        assert "graded_frames" not in trial["metadata"]
    assert settle(made) == 0
    stack.wait_for(run)
    with stack.client() as client:
        found = [client.find(trial["marker"]["client_id"]) for trial in trials]
    assert [trial and trial["verdict"] for trial in found] == [
        "success",
        "failure",
        "abstain",
        None,
    ]
    assert [trial and trial["instruction"] for trial in found] == list(INSTRUCTIONS)
    said = capsys.readouterr().err
    assert said.count("pending trials count as 0 in the log until `autograder harvest LOG`") == 1
    assert f"run {run} at {stack.url}" in said


def test_a_run_that_waits_has_every_kind_of_ending_in_its_log(
    stack: Stack, spool: Path, logs: Path
) -> None:
    made = grader(stack.url, spool, wait=True, run=run_name())
    inspect_robots.eval(bench(), "noop", Rig(), grader=made, log_dir=str(logs))
    log = saved_log(logs)
    trials = trials_in(log)
    assert [trial["judgement"] for trial in trials] == ["success", "failure", None, None]
    assert [trial["source"] for trial in trials] == ["stub", "stub", None, None]
    assert [trial["note"] for trial in trials[:2]] == ["Stub answer by script."] * 2
    assert [trial["metadata"].get("grading_error") for trial in trials] == [
        None, None, "abstained: criteria_unclear", "ungraded: judge_refused"
    ]  # fmt: skip
    assert [(t["marker"]["state"], t["marker"]["outcome"]) for t in trials] == [
        ("done", "graded"), ("done", "graded"), ("done", "abstained"), ("done", "ungraded")
    ]  # fmt: skip
    assert [trial["marker"]["reason"] for trial in trials] == [
        None, None, "criteria_unclear", "judge_refused"
    ]  # fmt: skip
    assert [trial["scores"]["operator"] for trial in trials] == [1.0, 0.0, 0.0, 0.0]
    assert log["status"] == "success"
    assert log["eval"]["grader"] == "autograder"
    assert log["eval"]["grader_config"]["mode"] == "wait"


def test_a_trial_that_the_robot_decided_is_adopted_and_submitted_without_a_call(
    stack: Stack, spool: Path, logs: Path, model: StubModel
) -> None:
    run = run_name()
    made = grader(stack.url, spool, run=run)
    task = bench((f"Reach the cube of {run}",), steps=50)
    inspect_robots.eval(task, "scripted", Rig(), grader=made, log_dir=str(logs))
    [trial] = trials_in(saved_log(logs))
    assert (trial["judgement"], trial["source"]) == ("success", "embodiment")
    assert (trial["marker"]["state"], trial["marker"]["outcome"]) == ("done", "graded")
    assert settle(made) == 0
    with stack.client() as client:
        found = client.find(trial["marker"]["client_id"])
    assert found is not None
    assert (found["state"], found["verdict"], found["source"]) == ("done", "success", "embodiment")
    # Other tests' trials may be asked about meanwhile.
    assert [call for call in model.log if run in str(call)] == []


@pytest.mark.parametrize("said", ["y", "failure", "partial"])
def test_a_verdict_from_the_console_stays_as_it_was_given(
    stack: Stack, spool: Path, said: str
) -> None:
    made = grader(stack.url, spool, wait=True)
    record = TrialRecord("s", 0, None, operator_judgement=said, operator_note="I saw it.")
    record.events.append(operator_event(0, said, source="console", note="I saw it."))
    made.grade(record, Scene("s", "Lift the cup"))
    assert (record.operator_judgement, record.operator_note) == (said, "I saw it.")
    assert len(record.events) == 1
    assert record.metadata["autograder"]["outcome"] == "graded"
    assert settle(made) == 0
    with stack.client() as client:
        found = client.find(record.metadata["autograder"]["client_id"])
    assert found is not None
    assert (found["source"], found["verdict"]) == (
        "console",
        "success" if said == "y" else "failure",
    )


@pytest.mark.parametrize("store_frames", [False, True])
def test_the_service_gets_the_first_and_last_frames_whether_they_are_stored_or_not(
    stack: Stack,
    spool: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    store_frames: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    made = grader(stack.url, spool, run=run_name(), wait=True)
    inspect_robots.eval(
        bench(("Lift the cup",)),
        "noop",
        Rig(cameras=("e", "d", "c", "b", "a")),
        grader=made,
        log_dir="logs",
        store_frames=store_frames,
    )
    [trial] = trials_in(saved_log(Path("logs")))
    with stack.client() as client:
        files = client.files(trial["marker"]["trial"])
    saved = load_trial(files.__getitem__)
    shown = [(ref.phase, ref.camera) for ref in saved.frames]
    assert shown == [(phase, name) for phase in ("first", "last") for name in "abcd"]
    # The fifth picture of the robot is of camera a, the 20th its last one.
    for ref, number in ((saved.frames[0], 5), (saved.frames[4], 20)):
        path = f"frames/{ref.sha256}.npy"
        wanted = np.random.default_rng(number).integers(0, 255, (128, 160, 3), np.uint8)
        (tmp_path / "frame.npy").write_bytes(files[path])
        assert np.array_equal(np.load(tmp_path / "frame.npy"), wanted)
    assert len(saved.record.steps) == 3
    assert saved.record.steps[2].result.info["distance"] > 0
    assert saved.instruction_used == "Lift the cup"
    assert "autograder" not in saved.record.metadata


def test_relative_paths_of_stored_frames_hold_after_the_harness_has_moved(
    stack: Stack, spool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = grader(stack.url, spool, run=run_name())

    def moved(record: Any, scene: Any) -> None:
        assert not Path(record.steps[0].image_refs["front"].path).is_absolute()
        made.grade(record, scene)
        monkeypatch.chdir("/")

    inspect_robots.eval(
        bench(("Lift the cup",)), "noop", Rig(), before_scoring=moved, log_dir="logs",
        store_frames=True, store_actions=False, sinks=[],
    )  # fmt: skip
    assert settle(made) == 0
    stack.wait_for(made.config()["run"])
    with stack.client() as client:
        [trial] = client.trials(run=made.config()["run"])
        assert len(json.loads(client.record(trial["id"]))["frames"]) == 4


def test_parked_frames_are_sent_and_named_only_beside_a_verdict(
    stack: Stack, spool: Path, logs: Path
) -> None:
    made = grader(stack.url, spool, wait=True)
    inspect_robots.eval(bench(), "noop", Rig(parks=True), grader=made, log_dir=str(logs))
    trials = trials_in(saved_log(logs))
    assert [trial["metadata"].get("graded_frames") for trial in trials] == [
        "parked", "parked", None, None
    ]  # fmt: skip
    with stack.client() as client:
        frames = json.loads(client.record(trials[0]["marker"]["trial"]))["frames"]
        [verdict] = client.verdicts(trials[0]["marker"]["trial"])
    assert [frame["phase"] for frame in frames] == ["first"] * 2 + ["last"] * 2 + ["parked"] * 2
    assert verdict["receipt"] is not None
    assert {frame["phase"] for frame in verdict["receipt"]["frames"]} == {"first", "parked"}


def test_a_scenes_own_rubric_beats_the_runs(stack: Stack, spool: Path, logs: Path) -> None:
    made = grader(stack.url, spool, wait=True, rubric="Is the run's rubric met?")
    own = bench(("Lift the cup",), metadata={"rubric": "Is the scene's rubric met?"})
    for number, task in enumerate((own, bench(("Lift the cup",)))):
        folder = logs / str(number)
        inspect_robots.eval(task, "noop", Rig(), grader=made, log_dir=str(folder))
        [trial] = trials_in(saved_log(folder))
        with stack.client() as client:
            [verdict] = client.verdicts(trial["marker"]["trial"])
        whose = ("scene", "run")[number]
        assert f"Is the {whose}'s rubric met?" in json.dumps(verdict["receipt"])


@pytest.mark.parametrize("reducer", REDUCERS)
def test_every_reducer_works_over_deferred_trials(
    stack: Stack, spool: Path, logs: Path, reducer: str
) -> None:
    made = grader(stack.url, spool, flush=0)
    task = bench(("Lift the cup", "Miss the cup"), epochs=5, reducer=reducer)
    inspect_robots.eval(task, "noop", Rig(), grader=made, log_dir=str(logs))
    log = saved_log(logs)
    assert log["status"] == "success"
    assert log["results"]["metrics"] == {"operator": 0.0, "episode_length": pytest.approx(
        1.0 if reducer.startswith("pass_at") else 3.0
    )}  # fmt: skip
    ids = [trial["marker"]["client_id"] for trial in trials_in(log)]
    assert len(set(ids)) == 10
    assert settle(made) == 0


def test_all_ten_kitchen_tasks_share_one_grader(stack: Stack, spool: Path, logs: Path) -> None:
    import kitchenbench.tasks  # noqa: F401  # so that a missing package fails here
    from inspect_robots.registry import registered

    tasks = sorted(name for name in registered("task") if name.startswith("kitchenbench/"))
    assert len(tasks) == 10
    run = run_name()
    made = grader(stack.url, spool, run=run)
    success, done = inspect_robots.eval_set(
        tasks, "kitchen_noop", "kitchen", grader=made, log_dir=str(logs)
    )
    assert success
    found = [trial for log in done for sample in log.samples for trial in sample.trial_metadata]
    assert len(found) == 250
    assert {trial["autograder"]["state"] for trial in found} == {"pending"}
    assert settle(made, timeout_s=120) == 0
    with stack.client() as client:
        at_service = {trial["client_id"]: trial for trial in client.trials(run=run)}
    assert at_service.keys() == {trial["autograder"]["client_id"] for trial in found}
    # The task words its instruction anew for each epoch; the judge gets what the policy got.
    worded_anew = 0
    for log in done:
        for sample in log.samples:
            for trial in sample.trial_metadata:
                told = at_service[trial["autograder"]["client_id"]]["instruction"]
                worded_anew += told != sample.instruction
    assert worded_anew == 62


def test_several_threads_share_one_grader(stack: Stack, spool: Path, tmp_path: Path) -> None:
    run = run_name()
    made = grader(stack.url, spool, run=run)

    def evaluate(number: int) -> None:
        inspect_robots.eval(
            bench(name=f"bench-{number}"),
            "noop",
            Rig(),
            grader=made,
            log_dir=str(tmp_path / f"logs-{number}"),
        )

    threads = [threading.Thread(target=evaluate, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert settle(made) == 0
    with stack.client() as client:
        assert client.run(run)["trials"] == 16


def test_several_graders_share_one_spool(stack: Stack, spool: Path, tmp_path: Path) -> None:
    runs = [run_name(), run_name()]
    made = [grader(stack.url, spool, run=run) for run in runs]
    for number, one in enumerate((*made, *made)):
        folder = str(tmp_path / str(number))
        inspect_robots.eval(bench(), "noop", Rig(), grader=one, log_dir=folder)
    assert [settle(one) for one in made] == [0, 0]
    with stack.client() as client:
        assert [client.run(run)["trials"] for run in runs] == [8, 8]


@pytest.fixture
def interrupted_service(stack: Stack) -> Iterator[Stack]:
    """The service, whose API the test may stop; it runs again afterwards."""
    yield stack
    if "api" not in stack._children:
        stack.start_api()


def test_a_service_that_dies_mid_run_gets_its_trials_once_it_is_back(
    interrupted_service: Stack, spool: Path, logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stack, run = interrupted_service, run_name()
    made = grader(stack.url, spool, run=run, wait=True)
    seen: list[TrialRecord] = []

    def grade(record: Any, scene: Any) -> None:
        if len(seen) == 2:
            stack.kill("api")
        made.grade(record, scene)
        seen.append(record)

    inspect_robots.eval(
        bench(("Lift the cup",) * 5), "noop", Rig(), before_scoring=grade, log_dir=str(logs)
    )
    assert [record.operator_judgement for record in seen] == ["success"] * 2 + [None] * 3
    assert [r.metadata["autograder"]["state"] for r in seen] == ["done"] * 2 + ["pending"] * 3
    said = capsys.readouterr().err
    assert said.count(f"trials are kept in {spool} and sent later") == 1
    assert len(Spool(spool).waiting()) == 3
    stack.start_api()
    assert settle(made) == 0
    assert Spool(spool).waiting() == []
    assert stack.wait_for(run)["graded"]["n"] == 5


def test_a_service_that_is_down_at_the_start_costs_a_warning_unless_verdicts_are_waited_for(
    spool: Path, logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = "http://127.0.0.1:9"
    made = grader(nowhere, spool, flush=0)
    inspect_robots.eval(bench(), "noop", Rig(), grader=made, log_dir=str(logs))
    assert len(trials_in(saved_log(logs))) == 4
    assert f"warning: no service answers at {nowhere}" in capsys.readouterr().err
    assert settle(made, timeout_s=0.5) == 4
    kept = Spool(spool).waiting(nowhere)
    assert len(kept) == 4
    for entry in kept:  # as another process does that has sent them
        entry.path.unlink()
    assert settle(made) == 0
    with pytest.raises(ConfigError, match=r"(?s)no service answers.*\nfix: "):
        grader(nowhere, spool, wait=True)


def test_what_an_earlier_run_left_in_the_spool_is_sent_by_the_next_one(
    stack: Stack, spool: Path
) -> None:
    left = Spool(spool).put(
        stack.url,
        {
            "kind": "robot",
            "run": run_name(),
            "client_id": uuid4().hex,
            "scene": {"id": "s", "instruction": "Lift the cup"},
        },
        {},
    )
    made = grader(stack.url, spool)
    made.grade(TrialRecord("s", 0, None), Scene("s", "Lift the cup"))
    assert settle(made) == 0
    with stack.client() as client:
        assert client.find(left.client_id) is not None
    assert Spool(spool).waiting() == []


def test_what_the_service_refuses_is_said_marked_and_kept(
    stack: Stack, spool: Path, logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = grader(stack.url, spool, wait=True)
    task = bench(("Lift the cup",), metadata={"rubric": "robot/no-such-rubric"})
    inspect_robots.eval(task, "noop", Rig(), grader=made, log_dir=str(logs))
    [trial] = trials_in(saved_log(logs))
    assert trial["marker"]["state"] == "rejected"
    assert "there is no rubric 'robot/no-such-rubric'" in trial["marker"]["reason"]
    assert trial["judgement"] is None
    assert "there is no rubric 'robot/no-such-rubric'" in capsys.readouterr().err
    assert len(Spool(spool).rejected()) == 1


def test_a_verdict_that_takes_too_long_is_left_to_harvest(
    stack: Stack, spool: Path, logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = grader(stack.url, spool, wait=True, timeout=0, run=run_name())
    inspect_robots.eval(bench(("Lift the cup",)), "noop", Rig(), grader=made, log_dir=str(logs))
    [trial] = trials_in(saved_log(logs))
    assert trial["marker"]["state"] == "pending"
    assert "no verdict within 0 s; the trial stays pending" in capsys.readouterr().err
    assert settle(made) == 0


def test_a_pending_trial_abstains_where_the_harness_knows_abstentions(
    stack: Stack, spool: Path, logs: Path
) -> None:
    """No release that abstains is published; our scorer of that dialect stands for its own."""
    made = grader(stack.url, spool, pending="abstain", run=run_name())
    seen: list[tuple[TrialRecord, Any]] = []

    def grade(record: Any, scene: Any) -> None:
        made.grade(record, scene)
        seen.append((record, operator_scorer(dialect="newest")(record, scene.target)))

    inspect_robots.eval(
        bench(("Lift the cup",)), "noop", Rig(), before_scoring=grade, log_dir=str(logs)
    )
    [(record, score)] = seen
    client_id = record.metadata["autograder"]["client_id"]
    assert record.metadata["grading_error"] == f"pending: autograder trial {client_id}"
    assert score.value is None
    # The harness that is installed knows no abstentions.
    assert saved_log(logs)["results"]["metrics"]["operator"] == 0.0
    assert settle(made) == 0


def test_waiting_replaces_the_pending_abstention_by_the_verdict(stack: Stack, spool: Path) -> None:
    made = grader(stack.url, spool, pending="abstain", wait=True)
    graded = TrialRecord("s", 0, None, terminated=True, termination_reason="operator_end")
    made.grade(graded, Scene("s", "Lift the cup"))
    assert graded.metadata["grading_error"] == "ungraded: evidence_missing"
    assert [(event.kind, event.data["reason"]) for event in graded.events] == [
        ("grading", "evidence_missing")
    ]


class Hostile(TrialRecord):
    """A record whose steps can't be read, the first time or the first few."""

    raises: BaseException
    times = 99

    def __getattribute__(self, name: str) -> Any:
        if name == "steps" and self.times > 0:
            self.times -= 1
            raise object.__getattribute__(self, "raises")
        return super().__getattribute__(name)


@pytest.mark.parametrize(
    "error", [RuntimeError("odd"), SystemExit(3), KeyboardInterrupt(), MemoryError(), OSError(28)]
)
def test_whatever_happens_the_harness_goes_on_and_the_trial_is_marked(
    stack: Stack, spool: Path, error: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    made = grader(stack.url, spool)
    record = Hostile("s", 0, None)
    record.raises = error
    made.grade(record, Scene("s", "Lift the cup"))
    assert record.operator_judgement is None
    marker = json.loads(json.dumps(record.metadata))["autograder"]
    assert (marker["state"], marker["outcome"]) == ("rejected", None)
    assert marker["reason"]
    assert "s epoch 0 is not submitted: " in capsys.readouterr().err


def test_a_ctrl_c_while_a_trial_is_handed_over_does_not_lose_the_trial(
    stack: Stack, spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = grader(stack.url, spool, wait=True)
    record = Hostile("s", 0, None)
    record.raises, record.times = KeyboardInterrupt(), 1
    made.grade(record, Scene("s", "Lift the cup"))
    assert record.metadata["autograder"]["state"] == "pending"
    assert "not waiting for verdicts any more" in capsys.readouterr().err
    assert made.config()["mode"] == "deferred"
    assert settle(made) == 0
    with stack.client() as client:
        assert client.find(record.metadata["autograder"]["client_id"]) is not None


@pytest.mark.parametrize("error", [SafetyAbort("stop"), EmbodimentFault("stuck")])
def test_what_must_halt_the_robot_halts_it(stack: Stack, spool: Path, error: Exception) -> None:
    made = grader(stack.url, spool)
    record = Hostile("s", 0, None)
    record.raises = error
    with pytest.raises(type(error)):
        made.grade(record, Scene("s", "Lift the cup"))


def test_a_closed_terminal_ends_no_run(
    stack: Stack, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = grader(stack.url, spool, wait=True, timeout=0)
    monkeypatch.setattr("sys.stderr", None)
    record = TrialRecord("s", 0, None)
    made.grade(record, Scene("s", "Lift the cup"))
    assert record.metadata["autograder"]["state"] == "pending"
    assert settle(made) == 0


def test_what_governs_the_grading_is_plain_json_in_the_log(
    stack: Stack, spool: Path, logs: Path
) -> None:
    made = grader(stack.url, spool, run=7, judge="main", rubric="Is it lifted?")
    inspect_robots.eval(bench(("Lift the cup",)), "noop", Rig(), grader=made, log_dir=str(logs))
    assert saved_log(logs)["eval"]["grader_config"] == {
        "mode": "deferred",
        "url": stack.url,
        "run": "7",
        "rubric": "Is it lifted?",
        "judge": "main",
        "timeout": 120.0,
        "pending": "zero",
    }
    assert settle(made) == 0


def test_the_service_is_asked_once_however_often_the_harness_checks(
    spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = grader("http://127.0.0.1:9", spool)
    made.preflight()
    made.preflight()
    assert capsys.readouterr().err.count("warning: no service answers") == 1


def test_another_service_that_says_it_is_ready_is_refused_before_the_robot_moves(
    spool: Path,
) -> None:
    async def other(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"ready": true}'})

    with serving(other) as url, pytest.raises(ConfigError, match="is no autograder service"):
        grader(url, spool)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"rubric": "robot/place-in-gaol"}, "did you mean robot/place-in-goal"),
        ({"judge": "careful"}, "there is no judge 'careful'"),
    ],
)
def test_a_name_that_the_service_does_not_know_is_refused_before_the_robot_moves(
    stack: Stack, spool: Path, options: dict[str, str], told: str
) -> None:
    with pytest.raises(ConfigError, match=told) as refused:
        grader(stack.url, spool, **options)
    assert "fix: " in str(refused.value)


@pytest.mark.parametrize("abstains", [False, True])
def test_what_pending_means_in_the_log_is_said_for_the_harness_that_runs(
    stack: Stack,
    spool: Path,
    abstains: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The field of the results by which a harness that abstains is told is put there by hand."""
    fields = {"abstentions": None} if abstains else {}
    results = type("EvalResults", (), {"__dataclass_fields__": fields})
    monkeypatch.setattr("grader_service.plugins.harness.grader.EvalResults", results)
    made = grader(stack.url, spool, pending="abstain")
    for _ in range(2):
        made.grade(TrialRecord("s", 0, None), Scene("s", "Lift the cup"))
    said = capsys.readouterr().err
    assert said.count("pending trials abstain in the log") == (1 if abstains else 0)
    assert said.count("pending trials count as 0 in the log") == (0 if abstains else 1)
    assert settle(made) == 0


def test_another_program_at_the_address_is_refused_before_the_robot_moves(
    model: StubModel, spool: Path
) -> None:
    with pytest.raises(ConfigError, match="HTTP 404"):
        grader(model.root_url, spool)


def test_the_environment_alone_configures_a_grader_that_is_named_only(
    stack: Stack, spool: Path, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_name()
    for name, value in {"URL": stack.url, "RUN": run, "WAIT": "1", "SPOOL": str(spool)}.items():
        monkeypatch.setenv(f"AUTOGRADER_{name}", value)
    inspect_robots.eval(
        bench(("Lift the cup",)), "noop", Rig(), grader="autograder", log_dir=str(logs)
    )
    [trial] = trials_in(saved_log(logs))
    assert (trial["judgement"], trial["marker"]["run"]) == ("success", run)
