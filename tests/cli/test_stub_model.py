"""The command as a process: what it prints, what it takes, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMMAND = "import typer; from grader_service.cli.stub_model import *; typer.run(stub_model_command)"


@contextmanager
def running(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start the command; yield it with the first line that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def ask(url: str) -> httpx2.Response:
    asked = {"model": "m", "messages": [{"role": "user", "content": "cube"}]}
    return httpx2.post(f"{url}/chat/completions", json=asked, trust_env=False, timeout=20)


def text_of(response: httpx2.Response) -> Any:
    return response.json()["choices"][0]["message"]["content"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_prints_its_url_first_answers_there_and_ends_well(number: signal.Signals) -> None:
    with running() as (process, url):
        assert "GRADE: " in text_of(ask(url))
        process.send_signal(number)
        rest, errors = process.communicate(timeout=20)
        assert (process.returncode, rest, errors) == (0, "", "")


def test_it_ends_well_while_calls_are_waiting_for_their_answer() -> None:
    with running("--latency", "60") as (process, url):
        with pytest.raises(httpx2.ReadTimeout):
            httpx2.post(
                f"{url}/chat/completions",
                json={"model": "m", "messages": []},
                trust_env=False,
                timeout=0.3,
            )
        process.terminate()
        assert process.wait(timeout=20) == 0


def test_it_takes_a_script_and_faults_and_can_print_json(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"match": {"text": "cube"}, "replies": [{"text": "scripted"}]}]))
    arguments = ("--script", str(script), "--faults", "503:1.0,max=1", "--seed", "5", "--json")
    with running(*arguments) as (_, line):
        urls = json.loads(line)
        assert urls["url"] == f"{urls['root_url']}/v1"
        assert ask(urls["url"]).status_code == 503
        assert text_of(ask(urls["url"])) == "scripted"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--faults", "teapot:1"), "teapot"),
        (("--script", "missing.json"), "missing.json"),
        (("--host", "192.0.2.1"), "can't listen"),
    ],
)
def test_what_it_cannot_start_with_is_wrong_use(
    arguments: tuple[str, ...], problem: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from grader_service.cli.stub_model import stub_model_command
    from grader_service.errors import UsageError

    monkeypatch.chdir(tmp_path)
    given = {arguments[0].removeprefix("--"): arguments[1]}
    if "script" in given:
        given["script"] = tmp_path / given["script"]  # type: ignore[assignment]
    with pytest.raises(UsageError, match=problem) as caught:
        stub_model_command(**given)  # type: ignore[arg-type]
    assert caught.value.exit_code == 2
    assert caught.value.fix


def test_a_script_that_is_no_list_is_wrong_use(tmp_path: Path) -> None:
    from grader_service.cli.stub_model import stub_model_command
    from grader_service.errors import UsageError

    script = tmp_path / "script.json"
    script.write_text("{}")
    with pytest.raises(UsageError, match="list"):
        stub_model_command(script=script)
