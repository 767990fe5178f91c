"""The example scripts of the client, each run as its docstring says, against a whole service."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader_service.client.http import Client
from grader_service.providers.stub import StubModel
from tests.support.judges import judge_at
from tests.support.servers import RedisServer
from tests.support.stack import ROOT, Stack, running
from tests.support.submitting import submit_all


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer) -> Iterator[Stack]:
    """A service whose judge answers at once."""
    redis_server.flush()
    with StubModel() as model:
        home, judges = tmp_path_factory.mktemp("home"), {"main": judge_at(model.url)}
        with running(home, redis_server.url, judges) as stack:
            yield stack


@pytest.fixture
def client(stack: Stack) -> Iterator[Client]:
    with stack.client() as client:
        yield client


def run_script(stack: Stack, name: str, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py"), *arguments, "--url", stack.url],
        env=stack.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_folder_is_submitted_and_every_trial_of_it_gets_its_verdict(
    stack: Stack, client: Client, sample_trials: Path
) -> None:
    for _ in range(2):
        first, *trials, last = run_script(
            stack, "client_submit_folder", str(sample_trials), "--run", "folder"
        )
        assert first == "submitted 24 trials"
        assert sorted(line.split()[0] for line in trials) == sorted(
            trial["scene_id"] for trial in client.trials(run="folder")
        )
        graded = client.run("folder")["graded"]
        assert last.startswith(f"graded {graded['n']}: {graded['success']} success")


def test_a_control_loop_submits_a_hundred_trials_and_none_is_lost_or_doubled(
    stack: Stack, client: Client
) -> None:
    lines = run_script(stack, "client_control_loop", "--run", "rig7", "--trials", "100")
    assert re.match(r"100 trials submitted; the loop was late by \d+\.\d ms at most", lines[0])
    assert lines[-1].endswith("ungraded 0 of 100")
    assert {trial["client_id"] for trial in client.trials(run="rig7")} == {
        f"rig7/{number}" for number in range(100)
    }


def test_a_run_is_followed_and_each_of_its_scorecards_is_written(
    stack: Stack, client: Client, sample_trials: Path, tmp_path: Path
) -> None:
    ids = submit_all(client, sample_trials, run="watched")
    lines = run_script(stack, "client_watch_scorecards", "watched", str(tmp_path))
    assert lines[-1].startswith("no rate: STUB")
    assert {path.name for path in tmp_path.iterdir()} == {f"{id_}.scorecard.json" for id_ in ids}
    for trial_id in ids:
        card = (tmp_path / f"{trial_id}.scorecard.json").read_bytes()
        assert card == client.scorecard(trial_id)
