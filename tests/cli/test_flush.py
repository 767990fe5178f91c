"""`autograder flush`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from grader_service.api.app import create_app
from grader_service.api.body import Limits
from grader_service.bootstrap import build_service
from grader_service.cli.main import app
from grader_service.client.http import Client
from grader_service.client.spool import Spool
from grader_service.settings import Settings
from grader_service.storage.migrations import upgrade
from tests.client.conftest import serving

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a service without a judge answers."""
    service = build_service(Settings.load(home=tmp_path_factory.mktemp("home")))
    upgrade(service.database)
    with serving(create_app(service, Limits())) as url:
        yield url
    service.database.close()


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool")


def put(spool: Spool, url: str, **changes: Any) -> str:
    """Put a trial into the spool; return its client id."""
    scene = {"id": "s", "instruction": "lift"}
    trial = {"kind": "robot", "run": "r", "client_id": uuid4().hex, "scene": scene} | changes
    return spool.put(url, trial, {}).client_id


def flush(spool: Spool, *arguments: str) -> tuple[int, str]:
    """Run the command; return its exit code and output."""
    result = CliRunner().invoke(app, ["flush", "--spool", str(spool.folder), *arguments])
    return result.exit_code, result.output


def flush_json(spool: Spool, *arguments: str) -> tuple[int, Any]:
    code, output = flush(spool, "--json", *arguments)
    return code, json.loads(output.splitlines()[0])


def test_a_spool_that_is_not_there_has_nothing_to_send(spool: Spool) -> None:
    assert flush(spool) == (0, "sent 0, left 0, rejected 0\n")
    assert not spool.folder.exists()


def test_everything_goes_to_the_service_that_it_was_for(spool: Spool, url: str) -> None:
    ids = [put(spool, url) for _ in range(3)]
    assert flush(spool) == (0, "sent 3, left 0, rejected 0\n")
    with Client(url) as client:
        assert all(client.find(client_id) for client_id in ids)
    assert flush(spool) == (0, "sent 0, left 0, rejected 0\n")


def test_an_unreachable_service_keeps_its_trials_and_no_others(spool: Spool, url: str) -> None:
    left, sent = put(spool, NOWHERE), put(spool, url)
    code, told = flush_json(spool)
    assert code == 3
    assert told["sent"] == 1
    assert told["left"] == [{"client_id": left, "url": NOWHERE}]
    assert told["unreachable"].keys() == {NOWHERE}
    code, output = flush(spool)
    assert code == 3
    assert "no service answers at http://127.0.0.1:9" in output
    assert "fix: " in output
    with Client(url) as client:
        assert client.find(sent) is not None


def test_another_address_can_be_given_for_everything(spool: Spool, url: str) -> None:
    put(spool, NOWHERE)
    assert flush(spool, "--url", url)[0] == 0
    assert spool.waiting() == []


def test_what_is_refused_is_listed_until_it_is_put_right(spool: Spool, url: str) -> None:
    client_id = put(spool, url, rubric="robot/no-such-rubric")
    code, output = flush(spool)
    assert code == 1
    assert "sent 0, left 0, rejected 1" in output
    assert "1 refused: there is no rubric 'robot/no-such-rubric'" in output
    code, told = flush_json(spool)
    assert code == 1
    [kept] = told["rejected"]
    assert kept["client_id"] == client_id
    assert "there is no rubric" in kept["problem"]
    assert Path(kept["path"]).is_file()
    assert flush(spool, "--rejected")[0] == 1
    assert flush(spool, "--rejected", "--rubric", "Is it lifted?") == (
        0, "sent 1, left 0, rejected 0\n"
    )  # fmt: skip
    with Client(url) as client:
        assert client.find(client_id) is not None


def test_the_spool_is_found_through_the_environment(
    spool: Spool, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(spool, url)
    monkeypatch.setenv("AUTOGRADER_SPOOL", str(spool.folder))
    result = CliRunner().invoke(app, ["flush"])
    assert (result.exit_code, result.output) == (0, "sent 1, left 0, rejected 0\n")
