"""Judges for tests of whole services."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent


def judge_at(url: str, *, stub: bool = True, **changes: Any) -> dict[str, Any]:
    """Return the settings of a judge behind an OpenAI-compatible URL."""
    return {"provider": "openai", "model": "m", "base_url": url, "stub": stub} | changes


@contextmanager
def pixel_judge() -> Iterator[str]:
    """Run the judge that looks at pixels; give its URL."""
    child = subprocess.Popen(
        [sys.executable, "-m", "examples.pixel_judge", "--port", "0"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        yield child.stdout.readline().split()[-1]
    finally:
        child.terminate()
        child.communicate(timeout=30)
