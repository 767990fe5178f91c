"""What README shows works as shown."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.stack import ROOT, Stack

README = (ROOT / "README.md").read_text()


@pytest.fixture
def api(tmp_path: Path) -> Stack:
    stack = Stack(tmp_path / "home", "redis://127.0.0.1:9/0")
    stack.migrate()
    stack.start_api()
    return stack


def test_the_python_example_submits_a_trial(api: Stack) -> None:
    [example] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    try:
        done = subprocess.run(
            [sys.executable, "-c", example.replace("http://127.0.0.1:8400", api.url)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        api.close()
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("queued /v1/trials/")


def test_every_make_target_and_file_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"^make ([a-z-]+)", README, re.MULTILINE)) <= targets
    for link in re.findall(r"\]\(([\w./-]+)\)", README):
        assert (ROOT / link).exists(), link
