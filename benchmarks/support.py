"""What the benchmarks of the service share: its processes, its databases, and trials to grade."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader_service.grading.submit import FrameUpload, RobotSubmission
from grader_service.records.trial import Scene
from grader_service.storage.database import Database
from grader_service.storage.migrations import upgrade
from tests.support.servers import new_postgres_database, start_postgres

ROOT = Path(__file__).parents[1]
FRAMES = 4
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Stub:
    """A stub model in a process of its own."""

    url: str
    pid: int

    def judge(self) -> dict[str, Any]:
        return {"provider": "openai", "model": "m", "base_url": self.url, "stub": True}


@contextlib.contextmanager
def running_stub(*, latency: float = 0.0) -> Iterator[Stub]:
    child = subprocess.Popen(
        [sys.executable, "-m", "grader_service.cli.main", "stub-model", "--latency", str(latency)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        yield Stub(child.stdout.readline().strip(), child.pid)
    finally:
        child.terminate()
        child.communicate()


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Give a folder until the block ends."""
    folder = Path(tempfile.mkdtemp(prefix="autograder-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def empty_database(kind: str, folder: Path, *, pool_size: int = 8) -> Iterator[Database]:
    """Give an empty, migrated database; `kind` is sqlite or postgresql."""
    with contextlib.ExitStack() as stack:
        if kind == "sqlite":
            url = f"sqlite:///{folder / 'autograder.db'}"
        else:
            url = new_postgres_database(stack.enter_context(start_postgres(folder / "postgres")))
        database = Database(url, pool_size=pool_size)
        stack.callback(database.close)
        upgrade(database)
        yield database


def cpu_s(pid: int) -> float:
    """Return the CPU seconds that a process has spent."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def rss_mb(pid: int) -> float:
    """Return how much memory a process holds, in MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / 1e6


# Frames as robots send them: those of one sample trial are PNG.
_SETS = [
    folder
    for folder in sorted((ROOT / "examples" / "trials").iterdir())
    if len(list(folder.glob("*.jpg"))) == FRAMES
]
_PHASES = {"initial_": "first", "final_": "last"}


def frames(number: int) -> list[FrameUpload]:
    """Return the four 640x480 JPEG frames of a sample trial; they repeat after the last one."""
    return [
        FrameUpload(camera=path.stem.removeprefix(start), phase=phase, data=path.read_bytes())
        for start, phase in _PHASES.items()
        for path in sorted(_SETS[number % len(_SETS)].glob(f"{start}*"))
    ]


def submission(number: int, *, run: str = "bench") -> RobotSubmission:
    """Return a trial that no other number has."""
    scene = Scene(id=f"s{number}", instruction=f"Put object number {number} into the goal area.")
    return RobotSubmission(run=run, scene=scene, epoch=0, frames=frames(number))
