"""The base install: what a rig or a CI gets without the server's packages."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

# Runs the command line in an interpreter that can import nothing but the standard library, the
# project and `allowed`: what a fresh `pip install robot-autograder` would have.
_RUN = """
import importlib.abc, json, sys
known, allowed = (set(names) for names in json.loads(sys.argv.pop(1)))
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in known and top not in allowed:
            raise ModuleNotFoundError(f"No module named {top!r}", name=top)
        return None
sys.meta_path.insert(0, Absent())
from grader_service.cli.main import main
main()
"""


def base_modules() -> tuple[set[str], set[str]]:
    """Return all modules that are installed, and those of the base install's dependencies."""
    owners = importlib.metadata.packages_distributions()
    known = set(owners) - {"grader_service", "workers"}
    allowed: set[str] = set()
    todo, seen = ["robot-autograder"], set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        allowed |= {
            module for module, dists in owners.items() if name in {_normal(d) for d in dists}
        }
        for text in importlib.metadata.requires(name) or []:
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                todo.append(_normal(requirement.name))
    return known, allowed


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def run_base(*arguments: str) -> subprocess.CompletedProcess[str]:
    known, allowed = base_modules()
    return subprocess.run(
        [sys.executable, "-c", _RUN, json.dumps([sorted(known), sorted(allowed)]), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_base_install_has_no_server_package() -> None:
    _, allowed = base_modules()
    assert {"numpy", "pydantic", "httpx2", "typer"} <= allowed
    assert not allowed & {"fastapi", "celery", "sqlalchemy", "redis", "openai", "anthropic"}


def test_the_base_install_scores_trajectories(sample_trials: Path) -> None:
    done = run_base("score", str(sample_trials.parent / "a320"), "--json")
    assert done.returncode == 0, done.stderr
    scalars = sorted(card["scalar"] for card in json.loads(done.stdout)["cards"])
    assert scalars == [0.55, 0.9, 1.0]


def test_the_base_install_parses_replies(tmp_path: Path) -> None:
    reply = tmp_path / "reply.json"
    reply.write_text('{"wire": "text", "rubric": null, "token": null, "body": "GRADE: success"}')
    done = run_base("parse-reply", str(reply))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"] == "success"


def test_submit_without_a_service_exits_3_and_says_how_to_start_one(sample_trials: Path) -> None:
    done = run_base("submit", str(sample_trials), "--url", "http://127.0.0.1:9")
    assert done.returncode == 3
    assert "fix: start one with `autograder up`" in done.stderr


@pytest.mark.parametrize(
    "command", ["up", "serve", "worker", "migrate", "export r -o x", "estimate"]
)
def test_a_server_command_says_what_to_install(command: str) -> None:
    done = run_base(*command.split())
    assert done.returncode == 2
    assert "fix: pip install 'robot-autograder[server]'" in done.stderr
