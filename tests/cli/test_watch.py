"""`autograder watch` in a process of its own, against a service that grades when it is told to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from grader_service.api.app import create_app
from grader_service.api.body import Limits
from grader_service.cli.processes import free_port
from grader_service.providers.stub import StubModel
from tests.client.conftest import serving
from tests.support.in_process import InProcess, in_process
from tests.support.judges import judge_at
from tests.support.stack import AUTOGRADER, ROOT, Stack

SCRIPT = [
    {"match": {"text": "Refuse"}, "replies": [{"fault": "refusal"}]},
    {"match": {"text": "Abstain"}, "replies": [{"verdict": "abstain"}]},
    {"match": {}, "replies": [{"verdict": "success"}]},
]


@dataclass(frozen=True)
class Running:
    """A service in this process, and where it answers."""

    service: InProcess
    url: str
    frame: bytes

    def submit(self, *instructions: str) -> list[str]:
        ids = []
        for instruction in instructions:
            trial = {
                "kind": "robot",
                "run": "r",
                "scene": {"id": "s", "instruction": instruction},
                "rubric": "The block is away.",
                "frames": [{"camera": "front", "phase": "last", "part": "f0"}],
            }
            ids.append(self.service.submit(trial, {"f0": self.frame}).json()["id"])
        return ids


@pytest.fixture
def running(tmp_path: Path, sample_trials: Path) -> Iterator[Running]:
    frame = (sample_trials / "pad-01" / "final_front.jpg").read_bytes()
    with StubModel() as model:
        model.script(SCRIPT)
        with (
            in_process(tmp_path, judge_at(model.url), Limits()) as service,
            serving(create_app(service.service, Limits())) as url,
        ):
            yield Running(service, url, frame)


def _heed_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def watching(url: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Run `autograder watch r` until the block ends."""
    child = subprocess.Popen(
        [*AUTOGRADER, "watch", "r", "--url", url, *options],
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that runs tests in the background may have it ignored.
        preexec_fn=_heed_ctrl_c,  # noqa: PLW1509  (no more than a signal)
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def test_a_run_is_followed_line_by_line_and_ends_with_its_summary(running: Running) -> None:
    running.submit("Go.", "Go on.", "Abstain.")
    with watching(running.url) as watch:
        assert watch.stderr is not None
        first = watch.stderr.readline()
        assert first == "0 of 3 ended: 0 success, 0 failure, 0 abstained, 0 ungraded\n"
        running.service.grade()
        out, err = watch.communicate(timeout=60)
    assert watch.returncode == 0
    assert err.splitlines()[-1] == ("3 of 3 ended: 2 success, 0 failure, 1 abstained, 0 ungraded")
    assert out.startswith("run r: 3 trials: graded 2 (2 success, 0 failure), abstained 1")


def test_a_run_in_which_a_trial_ended_ungraded_is_exit_code_1(running: Running) -> None:
    running.submit("Go.", "Refuse.")
    running.service.grade()
    with watching(running.url) as watch:
        out, _ = watch.communicate(timeout=60)
    assert watch.returncode == 1
    assert "ungraded 1 (1 judge_refused)" in out


def test_for_machines_each_event_is_one_line_of_json(running: Running) -> None:
    ids = running.submit("Go.", "Go on.")
    running.service.grade()
    with watching(running.url, "--json") as watch:
        out, _ = watch.communicate(timeout=60)
    events = [json.loads(line) for line in out.splitlines()]
    assert [event["event"] for event in events] == ["summary", "trial", "trial", "end"]
    assert [event["trial"]["id"] for event in events[1:3]] == ids
    assert events[-1]["summary"]["graded"]["success"] == 2


def test_ctrl_c_ends_the_watching_and_nothing_else(running: Running) -> None:
    [trial_id] = running.submit("Go.")
    with watching(running.url) as watch:
        assert watch.stderr is not None
        watch.stderr.readline()
        watch.send_signal(signal.SIGINT)
        _, err = watch.communicate(timeout=60)
    assert watch.returncode == 130
    assert err.splitlines()[-1] == "stopped watching; the trials are graded all the same"
    running.service.grade()
    assert running.service.trial(trial_id)["verdict"] == "success"


def test_a_run_that_is_not_there_is_exit_code_2_and_no_service_exit_code_3(
    running: Running,
) -> None:
    with watching(running.url) as watch:
        _, err = watch.communicate(timeout=60)
    assert watch.returncode == 2
    assert "there is no run 'r'" in err
    with watching(f"http://127.0.0.1:{free_port()}") as watch:
        _, err = watch.communicate(timeout=60)
    assert watch.returncode == 3
    assert "fix: start one with `autograder up`" in err


def test_a_service_stops_while_it_is_watched_and_is_waited_for(tmp_path: Path) -> None:
    judges = {"main": judge_at("http://127.0.0.1:9/v1")}
    scene = {"id": "s", "instruction": "Put the block away."}
    log = tmp_path / "log"
    with log.open("w") as output:
        stack = Stack(tmp_path / "home", "redis://127.0.0.1:9/0", judges, output=output)
        try:
            stack.migrate()
            stack.start_api()
            with stack.client() as client:
                client.submit({"kind": "robot", "run": "r", "scene": scene}, {})
            with watching(stack.url) as watch:
                assert watch.stderr is not None
                watch.stderr.readline()
                assert stack.stop("api") == 0
                # It did not have to cut off whoever followed the run.
                assert "Cancel" not in log.read_text()
                assert "Traceback" not in log.read_text()
                stack.start_api()
                with stack.client() as client:
                    client.cancel(run="r")
                out, _ = watch.communicate(timeout=60)
        finally:
            stack.close()
    assert watch.returncode == 0
    assert out.startswith("run r: 0 trials: ")
