"""How long it takes to read and score A320 trajectories, against json.loads of the same lines.

    python benchmarks/a320_scoring.py [--json] [--rounds N]

Files: the recorded ones of tests/data/a320, and larger ones made of these by adding snapshots.
The ratio is (read + score) / json.loads, both in this process, each the fastest of N rounds, the
rounds of all taking turns so that a busy machine hits them alike. Canonical bytes, which include
the judge's bundle, are reported apart.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from grader_service.records.trajectory import parse_trajectory  # noqa: E402 - path first
from grader_service.scoring.a320 import score_trajectory  # noqa: E402

# These two exercise the reading of damaged files: json.loads alone can't read them.
DAMAGED = {"g25_apu_truncated_final", "g32_malformed_middle"}
CONTROLS = 1_500  # variables in one full snapshot of the aircraft


def recorded() -> list[bytes]:
    paths = sorted((ROOT / "tests" / "data" / "a320").glob("g*.jsonl"))
    return [path.read_bytes() for path in paths if path.stem not in DAMAGED]


def enlarged(data: bytes, size: int) -> bytes:
    """Return the trajectory with snapshot calls before its last line until it has `size` bytes."""
    *lines, last = data.splitlines(keepends=True)
    snapshot = {
        "type": "tool_call",
        "step": 1,
        "call_index": 0,
        "name": "snapshot",
        "args": {},
        "result": {f"OVHD_VARIABLE_{n}": n * 1.37 for n in range(CONTROLS)},
        "is_error": False,
        "sim_time_before": 100.0,
        "sim_time_after": 100.0,
        "wall_ms": 5,
    }
    line = json.dumps(snapshot).encode() + b"\n"
    missing = max(0, size - len(data))
    return b"".join([*lines, line * -(-missing // len(line)), last])


def load_lines(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.split(b"\n") if line]


def fastest(actions: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the fewest seconds that each action took; the actions take turns."""
    best = dict.fromkeys(actions, float("inf"))
    for _ in range(rounds):
        for name, action in actions.items():
            start = time.perf_counter()
            action()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def measure(files: list[bytes], rounds: int) -> dict[str, float]:
    """Return sizes in bytes and times in microseconds, per file, and the ratio."""
    cards = [score_trajectory(parse_trajectory(data)) for data in files]
    seconds = fastest(
        {
            "json_loads": lambda: [load_lines(data) for data in files],
            "read": lambda: [parse_trajectory(data) for data in files],
            "read_and_score": lambda: [score_trajectory(parse_trajectory(data)) for data in files],
            "canonical": lambda: [card.canonical() for card in cards],
        },
        rounds,
    )
    return {
        "files": len(files),
        "mean_bytes": round(sum(map(len, files)) / len(files)),
        **{f"{name}_us": round(each / len(files) * 1e6, 1) for name, each in seconds.items()},
        "ratio": round(seconds["read_and_score"] / seconds["json_loads"], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()

    files = recorded()
    sets = {
        "recorded": files,
        "100 kB": [enlarged(data, 100_000) for data in files[:8]],
        "1 MB": [enlarged(data, 1_000_000) for data in files[:2]],
    }
    results = {name: measure(each, options.rounds) for name, each in sets.items()}
    if options.json:
        print(json.dumps({"benchmark": "a320_scoring", "sets": results}))
        return
    for name, result in results.items():
        print(name)
        for key, value in result.items():
            print(f"  {key:20} {value:>12,}")


if __name__ == "__main__":
    main()
