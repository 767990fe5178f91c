"""docs/scoring.md shows what the commands really print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "scoring.md").read_text("utf-8")
# Those on files that are in this repository; the others start from a folder of the reader's own.
SHOWN = [
    (command, output)
    for command, output in re.findall(r"```console\n\$ (.*?)\n(.*?)```", PAGE, re.DOTALL)
    if " examples/" in command or " tests/" in command
]


@pytest.mark.parametrize(("command", "output"), SHOWN, ids=[command for command, _ in SHOWN])
def test_a_command_prints_what_the_page_says(command: str, output: str, tmp_path: Path) -> None:
    for name in ("examples", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=tmp_path,
        env=os.environ | {"PATH": path, "COLUMNS": "90"},
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    printed = "\n".join(line.rstrip() for line in done.stdout.splitlines())
    assert printed.strip() == output.strip()


def test_the_page_shows_commands() -> None:
    assert len(SHOWN) == 4
