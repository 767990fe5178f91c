"""The layers of the house, and what may be imported in which."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(folder)},
    )


def test_every_import_keeps_to_the_layers() -> None:
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout


def test_an_import_upwards_is_found(tmp_path: Path) -> None:
    for package in ("grader_service", "workers"):
        shutil.copytree(ROOT / package, tmp_path / package)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / "grader_service" / "scoring" / "intervals.py").open("a") as module:
        module.write("\nimport time\nimport grader_service.storage.database\n")
    done = lint(tmp_path)
    assert done.returncode != 0
    assert "grader_service.scoring.intervals" in done.stdout
