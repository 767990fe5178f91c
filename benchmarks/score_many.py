"""Measure `autograder score --aggregate` on many trajectories: speed, memory, a second process.

    python -m benchmarks.score_many [--files 10000] [--rounds 3] [--json]

The files are the recorded runs of tests/data/a320 (9 kB each on average) over and over, and for
`speed_up_100kb` half as many that snapshots make as large as the name says. The command runs as
its own process, its start included. Of each way the fastest round counts, and the ways take turns,
so that a busy machine hits them alike.

    over_parsing   CPU time of the command / of reading the files and json.loads of their lines here
    speed_up       seconds with one process / with two; says nothing where the cores are busy
    cpu_two        CPU time of all processes with two / with one: what the second costs
    memory_growth  peak memory of the command for all files / for a tenth of them; `_two`: of the
                   process that gathers what two others score
    kb_per_file    what each file more added to that peak, in kB
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.a320_scoring import enlarged, recorded

SCORE = [sys.executable, "-m", "grader_service.cli.main", "score", "--aggregate", "--json"]
PER_FOLDER = 500


@dataclass(frozen=True)
class Run:
    """One run: wall and CPU time in seconds, of the latter that of all processes; peak memory."""

    seconds: float
    cpu_s: float
    peak_kb: int = 0


def write_files(folder: Path, contents: Sequence[bytes], count: int) -> Path:
    """Write `count` files with these contents in turn; links, since nothing writes to them."""
    originals = folder / "originals"
    originals.mkdir(parents=True)
    for number, content in enumerate(contents):
        (originals / str(number)).write_bytes(content)
    for number in range(count):
        path = folder / "runs" / f"{number // PER_FOLDER:03}" / f"{number:06}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.hardlink_to(originals / str(number % len(contents)))
    return folder / "runs"


def score(folder: Path, jobs: int) -> Run:
    start = time.perf_counter()
    child = subprocess.Popen([*SCORE, "--jobs", str(jobs), str(folder)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    with child.stdout:
        assert json.loads(child.stdout.read())["errors"] == []
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    return Run(time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)


def parse(folder: Path) -> Run:
    start, cpu_start = time.perf_counter(), time.process_time()
    for path in folder.rglob("*.jsonl"):
        for line in path.read_bytes().splitlines():
            json.loads(line)
    return Run(time.perf_counter() - start, time.process_time() - cpu_start)


def measure(count: int, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="autograder-bench-") as root:
        temporary, contents = Path(root), recorded()
        large = [enlarged(content, 100_000) for content in contents]
        whole = write_files(temporary / "whole", contents, count)
        tenth = write_files(temporary / "tenth", contents, count // 10)
        large_half = write_files(temporary / "large", large, count // 2)
        ways: dict[str, Callable[[], Run]] = {
            "parse": lambda: parse(whole),
            "one": lambda: score(whole, 1),
            "two": lambda: score(whole, 2),
            "tenth_one": lambda: score(tenth, 1),
            "tenth_two": lambda: score(tenth, 2),
            "large_one": lambda: score(large_half, 1),
            "large_two": lambda: score(large_half, 2),
        }
        runs: dict[str, list[Run]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, way in ways.items():
                runs[name].append(way())
    seconds = {name: min(run.seconds for run in runs[name]) for name in ways}
    cpu = {name: min(run.cpu_s for run in runs[name]) for name in ways}
    peak = {name: min(run.peak_kb for run in runs[name]) for name in ways}
    return {
        "files": count,
        "files_per_s": round(count / seconds["one"]),
        "files_per_s_two": round(count / seconds["two"]),
        "over_parsing": round(cpu["one"] / cpu["parse"], 2),
        "speed_up": round(seconds["one"] / seconds["two"], 2),
        "speed_up_100kb": round(seconds["large_one"] / seconds["large_two"], 2),
        "cpu_two": round(cpu["two"] / cpu["one"], 2),
        "cpu_two_100kb": round(cpu["large_two"] / cpu["large_one"], 2),
        "peak_mb": round(peak["one"] / 1024, 1),
        "peak_mb_tenth": round(peak["tenth_one"] / 1024, 1),
        "memory_growth": round(peak["one"] / peak["tenth_one"], 3),
        "memory_growth_two": round(peak["two"] / peak["tenth_two"], 3),
        "kb_per_file": round((peak["one"] - peak["tenth_one"]) / (count - count // 10), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    figures = measure(options.files, options.rounds)
    if options.json:
        print(json.dumps({"benchmark": "score_many", **figures}))
        return
    for name, value in figures.items():
        print(f"{name:18} {value}")


if __name__ == "__main__":
    main()
