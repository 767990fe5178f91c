"""`autograder up`: one command, a whole service, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from celery import Celery

from grader_service.cli.processes import free_port
from grader_service.client.http import Client
from grader_service.errors import UnavailableError
from grader_service.grading.celery_queue import QUEUE, celery_config, key_prefix
from tests.support.stack import AUTOGRADER, ROOT, wait_until


def environment(home: Path, settings: Mapping[str, str]) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "AUTOGRADER_HOME": str(home), **settings}


@contextmanager
def up(home: Path, *arguments: str, **settings: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `autograder up` until the block ends; give the process and its URL once it is ready."""
    port = free_port()
    process = subprocess.Popen(
        [*AUTOGRADER, "up", "--port", str(port), *arguments],
        env=environment(home, settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: ready(url), what="autograder up")
        yield process, url
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def ready(url: str) -> bool:
    with Client(url) as client:
        try:
            return bool(client.readiness()["workers"])
        except UnavailableError:
            return False


def run(*arguments: str, home: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*AUTOGRADER, *arguments],
        env=environment(home, settings),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_stubbed_service_grades_what_is_submitted_and_ends_cleanly(
    tmp_path: Path, sample_trials: Path
) -> None:
    with up(tmp_path, "--stub") as (process, url):
        submitted = run(
            *("submit", str(sample_trials), "--run", "first", "--wait", "--json", "--url", url),
            home=tmp_path,
        )
        assert submitted.returncode == 0, submitted.stderr
        result = json.loads(submitted.stdout)
        again = run(
            "submit", str(sample_trials), "--run", "first", "--json", "--url", url, home=tmp_path
        )
        table = run(
            "submit", str(sample_trials), "--run", "first", "--wait", "--url", url, home=tmp_path
        )
        process.terminate()
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "autograder is up at" in output
    assert "STUB" in output
    assert len(result["trials"]) == 24
    assert {trial["source"] for trial in result["trials"]} == {"stub"}
    assert result["summary"]["no_rate_because"].startswith("STUB")
    assert [trial["id"] for trial in json.loads(again.stdout)["trials"]] == [
        trial["id"] for trial in result["trials"]
    ]
    assert "no success rate: STUB" in table.stdout
    assert "Pick up the red cube and place it on the green square." in table.stdout


def test_without_a_judge_trials_wait_and_say_so(tmp_path: Path, sample_trials: Path) -> None:
    with up(tmp_path) as (process, url):
        submitted = run(
            *("submit", str(sample_trials), "--run", "r", "--wait", "--url", url), home=tmp_path
        )
        process.terminate()
        output, _ = process.communicate(timeout=60)
    assert "no judge configured: trials are accepted and wait" in output
    assert "fix: set OPENAI_API_KEY" in output
    assert submitted.returncode == 1
    assert "24 trials wait: no judge configured" in submitted.stderr


def test_a_port_that_is_taken_is_said_with_a_way_out(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = run("up", "--port", str(taken.getsockname()[1]), home=tmp_path)
    assert done.returncode == 2
    assert "can't be used" in done.stderr
    assert "fix: " in done.stderr
    assert "--port" in done.stderr


def test_two_services_do_not_share_a_home(tmp_path: Path) -> None:
    with up(tmp_path, "--stub"):
        done = run("up", "--stub", "--port", str(free_port()), home=tmp_path)
    assert done.returncode == 2
    assert "another `autograder up` runs" in done.stderr


def test_an_address_that_other_machines_reach_is_refused(tmp_path: Path) -> None:
    done = run("up", home=tmp_path, AUTOGRADER_HOST="0.0.0.0")
    assert done.returncode == 2
    assert "fix: listen on 127.0.0.1" in done.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AUTOGRADER_PORT", "many"),
        ("AUTOGRADER_JUDGES", "{"),
        ("AUTOGRADER_JUDGES", '{"a": "gpt"}'),
        ("AUTOGRADER_JUDGES", '{"a": {"provider": "openai"}}'),
        ("AUTOGRADER_DATABASE_URL", "mysql://x"),
        ("AUTOGRADER_DATABASE_URL", "no url"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, name: str, value: str) -> None:
    done = run("up", "--port", "0", home=tmp_path, **{name: value})
    assert done.returncode == 2
    assert "fix: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="children follow their parent only on Linux")
def test_nothing_survives_a_killed_parent(tmp_path: Path) -> None:
    with up(tmp_path, "--stub") as (process, _):
        children = children_of(process.pid)
        assert len(children) == 4
        process.kill()
        process.wait()
        wait_until(
            lambda: not any(Path(f"/proc/{child}").exists() and alive(child) for child in children),
            what="the children to end",
        )


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_worker_that_dies_is_started_again(tmp_path: Path, sample_trials: Path) -> None:
    with up(tmp_path, "--stub") as (process, url):
        [worker] = [pid for pid in children_of(process.pid) if "workers.app" in command(pid)]
        os.kill(worker, signal.SIGKILL)
        time.sleep(0.1)
        done = run(
            *("submit", str(sample_trials), "--run", "r", "--wait", "--json", "--url", url),
            home=tmp_path,
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["summary"]["pending"]["n"] == 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_worker_that_freezes_is_replaced_and_what_it_held_is_graded(
    tmp_path: Path, sample_trials: Path
) -> None:
    with up(tmp_path, "--stub", AUTOGRADER_STUCK_AFTER_S="2") as (process, url):
        [worker] = [pid for pid in children_of(process.pid) if "workers.app" in command(pid)]
        os.kill(worker, signal.SIGSTOP)
        done = run(
            *("submit", str(sample_trials), "--run", "r", "--wait", "--json", "--url", url),
            home=tmp_path,
        )
        assert worker not in children_of(process.pid)
        process.terminate()
        output, _ = process.communicate(timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["summary"]["pending"]["n"] == 0
    assert "the worker is frozen; starting another one" in output


def test_a_worker_that_hears_nothing_any_more_is_replaced(
    tmp_path: Path, sample_trials: Path, redis_url: str
) -> None:
    settings = {"AUTOGRADER_STUCK_AFTER_S": "3", "AUTOGRADER_BROKER_URL": redis_url}
    with up(tmp_path, "--stub", **settings) as (process, url):
        with Celery(set_as_current=False) as app:
            prefix = key_prefix(f"sqlite:///{tmp_path / 'autograder.db'}")
            app.conf.update(celery_config(redis_url, prefix))
            # Afterwards it lives, ticks and is connected, and takes no messages: as after a reset
            # of its connection that it did not notice.
            wait_until(
                lambda: app.control.cancel_consumer(QUEUE, reply=True, timeout=2, limit=1),
                what="the worker to be deaf",
            )
        done = run(
            *("submit", str(sample_trials), "--run", "r", "--wait", "--json", "--url", url),
            home=tmp_path,
        )
        process.terminate()
        output, _ = process.communicate(timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["summary"]["pending"]["n"] == 0
    assert "the worker is deaf; starting another one" in output


def children_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def alive(pid: int) -> bool:
    try:
        return "zombie" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
