"""The pinned ScoreCards and aggregate rows of the A320 trajectories in tests/data/a320.

python tests/golden/a320/pin.py            write them anew, after an intended change
python tests/golden/a320/pin.py --digests  print what they would be, as {file: sha256}
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2]))

from grader_service.records.canonical import canonical_bytes, digest  # noqa: E402 - path first
from grader_service.records.trajectory import parse_trajectory  # noqa: E402
from grader_service.scoring.a320 import aggregate, score_trajectory  # noqa: E402

BROKEN = "g32_malformed_middle"


def pins() -> dict[str, bytes]:
    """Return the canonical bytes per file name."""
    trajectories = sorted((HERE.parents[1] / "data" / "a320").glob("*.jsonl"))
    cards = {
        path.stem: score_trajectory(parse_trajectory(path.read_bytes()))
        for path in trajectories
        if path.stem != BROKEN
    }
    return {
        **{f"{case}.json": card.canonical() for case, card in cards.items()},
        "aggregate.json": canonical_bytes(aggregate(cards.values())),
        "aggregate_include_errors.json": canonical_bytes(
            aggregate(cards.values(), include_errors=True)
        ),
    }


if __name__ == "__main__":
    if sys.argv[1:] == ["--digests"]:
        print(json.dumps({name: digest(data) for name, data in pins().items()}))
    else:
        for name, data in pins().items():
            (HERE / name).write_bytes(data)
