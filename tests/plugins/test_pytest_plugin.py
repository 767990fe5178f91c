"""The fixture `autograder_service`, in the projects of those who write harnesses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.packaging.test_base_install import base_modules

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "harness_ci"
PLUGIN = "grader_service.plugins.pytest_plugin"
INSTALLED = any(point.value == PLUGIN for point in entry_points(group="pytest11"))

# Runs pytest where nothing but the base install and pytest itself can be imported.
BASE = """
import importlib.abc, json, sys
known, allowed = (set(names) for names in json.loads(sys.argv.pop(1)))
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in known and top not in allowed:
            raise ModuleNotFoundError(f"No module named {top!r}", name=top)
        return None
sys.meta_path.insert(0, Absent())
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""
PYTEST = {"pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments"}

TEST = """
import os
from grader_service.client.http import Client

def test_the_service_answers(autograder_service):
    assert os.environ["AUTOGRADER_URL"] == autograder_service.url
    autograder_service.script("failure")
    with Client(autograder_service.url) as client:
        trial = {"kind": "a320", "run": "r", "client_id": "c"}
        with open(%r, "rb") as file:
            told = client.submit(trial, {"trajectory": file.read()})
        assert client.find("c")["verdict"] == "failure"
        assert client.trial(told["id"])["source"] == "llm_judge"
"""


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", *([] if INSTALLED else ["-p", PLUGIN]), *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_example_of_a_harness_passes_its_own_tests(tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLE, tmp_path / "harness_ci")
    done = run_pytest(folder, "-W", "error")
    assert done.returncode == 0, done.stdout
    assert " 7 passed" in done.stdout.splitlines()[-1]


def test_each_test_has_a_service_of_its_own_and_the_environment_is_as_before(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_it.py").write_text(
        "import os, pathlib\n"
        "seen = []\n"
        "def test_one(autograder_service, tmp_path):\n"
        "    seen.append(autograder_service.url)\n"
        "    spool = pathlib.Path(os.environ['AUTOGRADER_SPOOL'])\n"
        "    assert spool.parent == tmp_path\n"
        "def test_two(autograder_service):\n"
        "    assert autograder_service.trials == [] == autograder_service.requests\n"
        "def test_three():\n"
        "    assert 'AUTOGRADER_URL' not in os.environ\n"
    )
    done = run_pytest(tmp_path, "-p", "no:randomly", "-W", "error")
    assert " 3 passed" in done.stdout.splitlines()[-1], done.stdout


def test_the_base_install_has_the_fixture(tmp_path: Path) -> None:
    trajectory = str(ROOT / "examples" / "a320" / "g01_apu_full.jsonl")
    (tmp_path / "test_it.py").write_text(TEST % trajectory)
    known, allowed = base_modules()
    done = subprocess.run(
        [sys.executable, "-c", BASE, json.dumps([sorted(known), sorted(allowed | PYTEST)]),
         "-p", PLUGIN, "-W", "error"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 1 passed" in done.stdout.splitlines()[-1]


def test_who_does_not_use_the_fixture_pays_for_nothing() -> None:
    program = (
        "import sys, pytest\n"
        "before = set(sys.modules)\n"
        "import grader_service.plugins.pytest_plugin\n"
        "print(*sorted(set(sys.modules) - before))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) <= {
        "grader_service",
        "grader_service.plugins",
        "grader_service.plugins.pytest_plugin",
    }


@pytest.mark.parametrize("option", ["--fixtures", "--help"])
def test_the_plugin_is_at_home_in_every_project(tmp_path: Path, option: str) -> None:
    done = run_pytest(tmp_path, option)
    assert done.returncode in (0, 5), done.stderr
    assert ("autograder_service" in done.stdout) == (option == "--fixtures")
