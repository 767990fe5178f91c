"""Fuzz for a while.

    python -m fuzz [--seconds 60] [TARGET ...]

Prints, for each target, how many inputs were tried and what was found. An input that breaks
something is kept in .fuzz/<target>/finds and tried first until it breaks nothing; a corpus grows
beside it. Exits 1 where there are finds. Needs atheris (Linux and macOS, Python 3.11 to 3.13).
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

NAMES = ("reply", "trajectory", "record", "frame", "multipart")
KEPT = Path(".fuzz")
# A single input may take no longer, and no more memory than this.
TIMEOUT_S = 10
MEMORY_MB = 1024


def main() -> int:
    """Run each target in a process of its own: libFuzzer ends the one it runs in."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Fuzz for a while.")
    parser.add_argument("targets", nargs="*", choices=[*NAMES, []], metavar="TARGET")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    options = parser.parse_args()
    found = False
    for name in options.targets or NAMES:
        command = [sys.executable, "-m", "fuzz.run", name, str(options.seconds)]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)  # noqa: S603 - our own module
        tried = re.search(r"number_of_executed_units: *(\d+)", done.stderr)
        features = re.findall(r"cov: (\d+)", done.stderr)
        finds = sorted((KEPT / name / "finds").glob("*"))
        print(
            f"{name:<11} {int(tried[1]) if tried else 0:>9} inputs  "
            f"{features[-1] if features else '?':>6} edges  {len(finds)} finds",
            flush=True,
        )
        if done.returncode:
            found = True
            print(done.stderr[-4000:])
            print(*finds, sep="\n")
    return int(found)


if __name__ == "__main__":
    sys.exit(main())
