"""The wheel: what it puts into an environment."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    [path] = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_has_two_packages_and_nothing_else_at_its_top(wheel: zipfile.ZipFile) -> None:
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"grader_service", "workers"}


def test_the_wheel_brings_rubrics_migrations_the_script_of_the_limits_and_its_types(
    wheel: zipfile.ZipFile,
) -> None:
    names = set(wheel.namelist())
    assert "grader_service/_rubrics/robot/task-done.yaml" in names
    assert "grader_service/storage/migrations/versions/0001_initial.py" in names
    assert "grader_service/grading/limits.lua" in names
    assert "grader_service/py.typed" in names


def test_the_wheel_is_not_called_what_another_project_on_pypi_is(wheel: zipfile.ZipFile) -> None:
    assert Path(str(wheel.filename)).name.startswith("robot_autograder-")
