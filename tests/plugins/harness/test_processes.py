"""The harness' command line as a process of its own: Ctrl-C, kill -9, and the end of a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from grader_service.client.spool import Spool
from grader_service.providers.stub import StubModel
from tests.plugins.harness.rig import SCRIPT, saved_log, trials_in
from tests.support.stack import AUTOGRADER, Stack, wait_until

NOWHERE = "http://127.0.0.1:9"
# What the scenes of the task `cubepick-reach` say.
SLOW = [{"match": {"text": "reach the cube"}, "replies": [{"verdict": "success"}], "latency": 60}]


def harness(folder: Path, *options: str, epochs: int = 1, **environ: str) -> subprocess.Popen[str]:
    """Start `inspect-robots run` with our grader in a folder; 4 scenes."""
    given = [text for option in options for text in ("-G", option)]
    return subprocess.Popen(
        [
            str(Path(sys.executable).parent / "inspect-robots"), "run",
            "--task", "cubepick-reach", "-T", "num_scenes=4", "--epochs", str(epochs),
            "--policy", "noop", "--embodiment", "cubepick", "--log-dir", "logs",
            "--grader", "autograder", *given,
        ],
        cwd=folder,
        # A Ctrl-C at the terminal reaches it, though what runs the tests may ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
        env=os.environ | {"HOME": str(folder), "AUTOGRADER_SPOOL": str(folder / "spool")} | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def flush(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Run `autograder flush`; return its exit code and what it says."""
    done = subprocess.run(
        [*AUTOGRADER, "flush", "--spool", str(folder / "spool"), "--json", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


@pytest.fixture
def slow_model(model: StubModel) -> Iterator[None]:
    """The stub model, which takes a minute to answer."""
    model.script(SLOW + SCRIPT)
    yield
    model.script(SCRIPT)


@pytest.mark.usefixtures("slow_model")
def test_ctrl_c_while_waiting_ends_the_waiting_and_keeps_the_run_and_its_log(
    stack: Stack, tmp_path: Path
) -> None:
    run = f"interrupted-{uuid4().hex[:8]}"
    # A question of its own: to one that was answered before the answer is known at once.
    options = (f"url={stack.url}", f"run={run}", "wait=true", f"rubric=Is it reached? ({run})")
    with harness(tmp_path, *options) as process:
        with stack.client() as client:
            wait_until(lambda: list(client.trials(run=run)), what="the first trial")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    trials = trials_in(saved_log(tmp_path / "logs"))
    assert [trial["marker"]["state"] for trial in trials] == ["pending"] * 4
    assert "until `autograder harvest LOG`" in said
    assert "Traceback" not in said
    with stack.client() as client:
        at_service = {trial["client_id"] for trial in client.trials(run=run)}
        client.cancel(run=run)
    kept = {entry.client_id for entry in Spool(tmp_path / "spool").waiting()}
    assert at_service | kept == {trial["marker"]["client_id"] for trial in trials}


def test_the_command_line_runs_to_its_end_and_every_trial_is_sent(
    stack: Stack, tmp_path: Path
) -> None:
    run = f"whole-{uuid4().hex[:8]}"
    with harness(tmp_path, f"url={stack.url}", f"run={run}", epochs=5) as process:
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    log = saved_log(tmp_path / "logs")
    assert log["eval"]["grader"] == "autograder"
    assert log["eval"]["grader_config"]["mode"] == "deferred"
    assert stack.wait_for(run)["graded"]["n"] == 20
    assert Spool(tmp_path / "spool").waiting() == []


def test_when_the_service_stays_down_the_end_of_the_process_waits_no_longer_than_it_may(
    stack: Stack, tmp_path: Path
) -> None:
    run = f"kept-{uuid4().hex[:8]}"
    with harness(tmp_path, f"url={NOWHERE}", f"run={run}", "flush=0.5") as process:
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "sending 4 trials, for at most 0.5 s" in said
    assert f"4 trials are not sent yet; they are kept in {tmp_path / 'spool'}" in said
    assert "fix: `autograder flush` sends them" in said
    code, told = flush(tmp_path)
    assert code == 3
    assert len(told["left"]) == 4
    assert NOWHERE in told["unreachable"]
    code, told = flush(tmp_path, "--url", stack.url)
    assert (code, told["sent"], told["left"]) == (0, 4, [])
    assert stack.wait_for(run)["graded"]["n"] == 4


def test_a_process_that_may_not_send_at_its_end_still_writes_what_it_has_in_memory(
    tmp_path: Path,
) -> None:
    with harness(tmp_path, f"url={NOWHERE}", "flush=0", epochs=5) as process:
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "20 trials are not sent yet" in said
    assert len(Spool(tmp_path / "spool").waiting()) == 20


def test_ctrl_c_ends_the_sending_at_the_end_and_keeps_the_trials(tmp_path: Path) -> None:
    with harness(tmp_path, f"url={NOWHERE}", "flush=300") as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "sending 4 trials, for at most 300 s" in line:
                break
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "4 trials are not sent yet" in said
    assert "Traceback" not in said
    assert len(Spool(tmp_path / "spool").waiting()) == 4


def test_what_was_written_before_kill_9_is_sent_by_flush(stack: Stack, tmp_path: Path) -> None:
    run = f"killed-{uuid4().hex[:8]}"
    spool = Spool(tmp_path / "spool")
    with harness(tmp_path, f"url={NOWHERE}", f"run={run}", epochs=500) as process:
        wait_until(lambda: len(spool.waiting()) >= 20, what="trials in the spool")
        process.kill()
        process.communicate()
    written = {entry.client_id for entry in spool.waiting()}
    code, told = flush(tmp_path, "--url", stack.url)
    assert (code, told["sent"], told["left"]) == (0, len(written), [])
    with stack.client() as client:
        assert {trial["client_id"] for trial in client.trials(run=run)} == written


def test_two_flushes_at_once_send_every_trial_and_none_twice(stack: Stack, tmp_path: Path) -> None:
    run = f"shared-{uuid4().hex[:8]}"
    spool = Spool(tmp_path / "spool")
    for number in range(30):
        scene = {"id": f"s{number}", "instruction": "Lift the cup"}
        trial = {"kind": "robot", "run": run, "client_id": uuid4().hex, "scene": scene}
        spool.put(stack.url, trial, {})
    flushes = [
        subprocess.Popen(
            [*AUTOGRADER, "flush", "--spool", str(tmp_path / "spool"), "--json"],
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    told = [json.loads(process.communicate(timeout=60)[0]) for process in flushes]
    assert sum(each["sent"] for each in told) == 30
    assert spool.waiting() == spool.rejected() == []
    with stack.client() as client:
        assert client.run(run)["trials"] == 30


def test_a_wrong_option_ends_the_run_before_the_robot_moves(tmp_path: Path) -> None:
    with harness(tmp_path, "rubrik=x") as process:
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "fix: use -G rubric=..." in said
    assert "Traceback" not in said
    assert not (tmp_path / "logs").exists()
