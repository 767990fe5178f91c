"""`autograder export`: from the stores or over HTTP, and judged copies of trajectories on disk."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from grader_service.cli.main import app
from grader_service.client.disk import read_trajectory
from grader_service.errors import UnavailableError
from grader_service.providers.stub import StubModel
from grader_service.scoring.a320 import score_trajectory
from tests.client.conftest import serving
from tests.support.judges import judge_at
from tests.support.servers import RedisServer
from tests.support.stack import AUTOGRADER, ROOT, Stack, running

COCKPIT = ROOT / "examples" / "a320"
# By the facts of the run: they alone are what the judge is shown.
SCRIPT = [
    {"match": {"text": '"coverage":1,'}, "replies": [{"verdict": "success"}]},
    {"match": {"text": '"coverage":0.75,'}, "replies": [{"verdict": "failure"}]},
    {"match": {}, "replies": [{"fault": "refusal"}]},
]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer) -> Iterator[Stack]:
    redis_server.flush()
    with StubModel() as model:
        model.script(SCRIPT)
        home, judges = tmp_path_factory.mktemp("home"), {"main": judge_at(model.url)}
        with running(home, redis_server.url, judges) as stack:
            yield stack


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Three cockpit runs in folders of their own, as a benchmark leaves them."""
    folder = tmp_path / "runs"
    for path in COCKPIT.glob("*.jsonl"):
        name = "alpha" if "full" in path.name else "beta/deep"
        (folder / name).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / name)
    return folder


def autograder(
    stack: Stack, *arguments: str, code: int = 0, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*AUTOGRADER, *arguments],
        env=stack.environment | dict(environment or {}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def submit(stack: Stack, runs: Path, run: str) -> None:
    """Queue them as a pattern names them; one ends ungraded."""
    pattern = str(runs / "**" / "*.jsonl")
    autograder(stack, "submit", pattern, "--run", run, "--wait", "--url", stack.url, code=1)


@pytest.mark.parametrize("where", ["url", "environment", "stores"])
def test_trajectories_come_back_as_copies_that_differ_in_the_judgement_alone(
    stack: Stack, runs: Path, tmp_path: Path, where: str
) -> None:
    before = contents(runs)
    submit(stack, runs, where)
    options = ["--url", stack.url] if where == "url" else []
    environment = {"AUTOGRADER_URL": stack.url} if where == "environment" else {}
    judged = tmp_path / "judged"
    done = autograder(
        stack,
        *("export", where, "-o", str(judged), "--copies-of", str(runs), *options),
        environment=environment,
    )
    assert "3 judged copies" in done.stdout
    assert contents(runs) == before
    copies = contents(judged)
    assert copies.keys() == before.keys()
    outcomes = []
    for name in before:
        *records, judgement = copies[name].splitlines(keepends=True)
        assert b"".join(records) == before[name]
        assert json.loads(judgement)["type"] == "judgement"
        own, copy = (
            json.loads(score_trajectory(read_trajectory(folder / name)).canonical())
            for folder in (runs, judged)
        )
        assert own.pop("judgement") is None
        outcomes.append(copy.pop("judgement")["outcome"])
        # Everything else, and with it every score, is the original's.
        assert copy == own
    assert sorted(outcomes) == ["graded", "graded", "ungraded"]


def test_an_export_over_http_is_byte_for_byte_that_of_the_stores(
    stack: Stack, runs: Path, sample_trials: Path, tmp_path: Path
) -> None:
    submit(stack, runs, "both")
    autograder(
        stack,
        *("submit", str(sample_trials), "--run", "both", "--url", stack.url, "--wait"),
        code=1,
    )
    over_http, from_stores = tmp_path / "http", tmp_path / "stores"
    autograder(stack, "export", "both", "-o", str(over_http), "--url", stack.url)
    autograder(stack, "export", "both", "-o", str(from_stores))
    assert contents(over_http) == contents(from_stores)
    assert len(list(over_http.iterdir())) == 27
    autograder(stack, "verify", str(over_http))


def test_a_file_that_has_no_verdict_is_named_and_the_others_are_written(
    stack: Stack, runs: Path, tmp_path: Path
) -> None:
    submit(stack, runs, "partly")
    changed = next(runs.glob("alpha/*.jsonl"))
    changed.write_bytes(changed.read_bytes() + b'{"type":"note"}\n')
    judged = tmp_path / "judged"
    arguments = ("export", "partly", "-o", str(judged), "--copies-of", str(runs))
    done = autograder(stack, *arguments, "--json", "--url", stack.url, code=1)
    report = json.loads(done.stdout)
    assert report["copies"] == 2
    [error] = report["errors"]
    assert str(changed) in error
    assert "autograder submit" in error
    assert not (judged / changed.relative_to(runs)).exists()


def test_copies_never_overwrite_originals(stack: Stack, runs: Path) -> None:
    before = contents(runs)
    done = autograder(
        stack, "export", "x", "-o", str(runs), "--copies-of", str(runs / "**/*.jsonl"), code=2
    )
    assert "copies would overwrite originals" in done.stderr
    assert contents(runs) == before


@pytest.mark.parametrize("options", [[], ["--url", "{url}"]])
def test_a_run_that_is_not_there_is_exit_code_2(
    stack: Stack, tmp_path: Path, options: list[str]
) -> None:
    given = [option.format(url=stack.url) for option in options]
    done = autograder(stack, "export", "none", "-o", str(tmp_path / "x"), *given, code=2)
    assert "there is no run 'none'" in done.stderr
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("trial_id", ["../../home", "/etc", "", "."])
def test_a_program_that_is_no_service_can_not_choose_where_files_go(
    trial_id: str, tmp_path: Path
) -> None:
    async def hostile(scope: Any, receive: Any, send: Any) -> None:
        listed = {"trials": [{"id": trial_id}], "next_cursor": None}
        body = b"{}" if "/runs/" in scope["path"] else json.dumps(listed).encode()
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    with serving(hostile) as url:
        arguments = ["export", "r", "-o", str(tmp_path / "out"), "--url", url]
        done = CliRunner().invoke(app, arguments)
    assert isinstance(done.exception, UnavailableError)
    assert list(tmp_path.rglob("*")) == []
