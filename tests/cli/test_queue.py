"""`autograder queue` and `autograder prune`, against an API without workers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import suppress

import pytest

from grader_service.errors import NotFoundError
from tests.support.judges import judge_at
from tests.support.stack import AUTOGRADER, Stack


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A service that takes trials and has nobody to grade them."""
    judges = {"main": judge_at("http://127.0.0.1:9/v1")}
    stack = Stack(tmp_path_factory.mktemp("home"), "redis://127.0.0.1:9/0", judges)
    try:
        stack.migrate()
        stack.start_api()
        yield stack
    finally:
        stack.close()


@pytest.fixture
def run(stack: Stack, request: pytest.FixtureRequest) -> Iterator[str]:
    """A run of three trials that wait."""
    name = request.node.name
    scene = {"id": "s", "instruction": "Put the block away."}
    with stack.client() as client:
        for _ in range(3):
            client.submit({"kind": "robot", "run": name, "scene": scene}, {})
        yield name
        with suppress(NotFoundError):
            client.cancel(run=name)


def autograder(stack: Stack, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*AUTOGRADER, *arguments],
        env=stack.environment | {"AUTOGRADER_URL": stack.url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


def test_the_queue_is_a_table_for_people_and_json_for_machines(stack: Stack, run: str) -> None:
    table = autograder(stack, "queue").stdout
    header, _, row = table.strip().splitlines()[:3]
    assert header.split() == ["judge", "depth", "due", "oldest", "in", "flight", "waiting", "dead"]
    assert row.split()[:3] == ["main", "3", "3"]
    assert "no worker was seen in the last hour" in table
    queue = json.loads(autograder(stack, "queue", "--json").stdout)
    assert [judge["depth"] for judge in queue["judges"]] == [3]


def test_a_run_is_cancelled_and_queued_again(stack: Stack, run: str) -> None:
    assert "3 gradings are cancelled" in autograder(stack, "queue", "cancel", "--run", run).stdout
    assert "nothing waits, runs or died" in autograder(stack, "queue").stdout
    again = autograder(stack, "queue", "retry", "--run", run, "--reason", "cancelled", "--json")
    assert json.loads(again.stdout) == {"retried": 3}


def test_single_trials_are_cancelled_by_their_ids(stack: Stack, run: str) -> None:
    with stack.client() as client:
        first, second, _ = (trial["id"] for trial in client.trials(run=run))
    done = autograder(stack, "queue", "cancel", first, second, "--json")
    assert json.loads(done.stdout) == {"cancelled": 2}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["queue", "cancel"], 2),
        (["queue", "cancel", "no id"], 2),
        (["queue", "cancel", "--run", "no such run"], 2),
        (["queue", "retry", "--reason", "bad luck"], 2),
        (["queue", "--url", "http://127.0.0.1:9"], 3),
        (["prune", "--older-than", "a month"], 2),
    ],
)
def test_wrong_use_ends_with_what_to_do(stack: Stack, arguments: list[str], code: int) -> None:
    stderr = autograder(stack, *arguments, code=code).stderr
    assert "fix: " in stderr
    assert "Traceback" not in stderr


def test_pruning_says_what_it_would_delete_and_then_what_it_did(stack: Stack, run: str) -> None:
    autograder(stack, "queue", "cancel", "--run", run)
    young = autograder(stack, "prune", "--older-than", "30d", "--run", run)
    assert young.stdout == "deleted 0 trials (0 gradings, 0 verdicts) and 0 blobs (0.0 MB)\n"
    dry = autograder(stack, "prune", "--older-than", "0s", "--run", run, "--dry-run")
    assert dry.stdout.startswith("would delete 3 trials (3 gradings, 0 verdicts)")
    done = autograder(stack, "prune", "--older-than", "0s", "--run", run, "--json")
    assert json.loads(done.stdout) == {
        "dry_run": False,
        "trials": 3,
        "gradings": 3,
        "verdicts": 0,
        "blobs": 0,
        "bytes": 0,
    }
    with stack.client() as client:
        assert list(client.trials(run=run)) == []
