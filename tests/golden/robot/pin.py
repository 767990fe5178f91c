"""The pinned record.json and ScoreCards of one robot trial.

python tests/golden/robot/pin.py            write them anew, after an intended change
python tests/golden/robot/pin.py --digests  print what they would be, as {file: sha256}
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2]))

from grader_service.records.canonical import digest  # noqa: E402  # path first
from grader_service.records.saved import load_trial, save_trial  # noqa: E402
from grader_service.records.trial import (  # noqa: E402
    Action,
    Event,
    Observation,
    Scene,
    StepRecord,
    StepResult,
    Target,
    TrialRecord,
)
from grader_service.records.verdict import Verdict  # noqa: E402
from grader_service.scoring import (  # noqa: E402
    Score,
    default_scorers,
    reached_goal_state,
    resolve_scorers,
    robot_card,
)


class OddScorer:
    """A scorer whose value and metadata are all that a ScoreCard has to bring into one form."""

    name = "odd"
    version = "2031.1"

    def __call__(self, record: TrialRecord, target: Target | None) -> Score:
        kinds = {event.kind for event in record.events}
        spread: dict[str, Any] = {kind: np.float32(0.1) for kind in sorted(kinds, reverse=True)}
        spread |= {"inf": math.inf, "rows": (np.arange(3), np.bool_(1)), "ä": None, "big": 2**60}
        return Score(np.float64("nan"), f"on {target.spec['on'] if target else None}", spread)


def trial() -> tuple[TrialRecord, Scene]:
    before = Observation(state={"joints": np.linspace(-1, 1, 4)}, instruction="stack b on a")
    events = [Event("reset", -1, {"seed": 11})]
    steps = []
    for t in range(24):
        last = t == 23
        after = Observation(state={"joints": np.linspace(-1, 1, 4) * t / 7})
        info: dict[str, Any] = {"distance": np.float32(1 / (t + 3)) if t % 5 else f"0.{t + 2}"}
        reason = "operator_end" if last else None
        result = StepResult(after, 0.25 * t, last, reason, info=info)
        steps.append(StepRecord(t, before, Action(np.full(4, t / 3)), result))
        events.append(Event("step", t, {"terminated": last, "truncated": False, "reason": reason}))
        before = after
    metadata = {"zeta": -0.0, "alpha": (1, 1.0), "nan": math.nan, "lone": "\ud800"}
    record = TrialRecord("stack-01", 3, 11, steps=steps, events=events, metadata=metadata)
    return record, Scene("stack-01", "stack b on a", Target("stacked", {"on": "ab"}), 11)


def pins() -> dict[str, bytes]:
    """Return the pinned bytes per file name."""
    files = save_trial(*trial())
    saved = load_trial(files.__getitem__)
    scorers = [
        *default_scorers(),
        *resolve_scorers(["vlm", "criteria_met"]),
        reached_goal_state(0.04),
        OddScorer(),
    ]
    findings = [
        {"id": "on_top", "met": "yes", "required": True, "evidence": "b lies on a"},
        {"id": "released", "met": "no", "required": True, "evidence": "held"},
    ]
    known: dict[str, Any] = {"id": "v", "source": "vlm", "at": "2031-01-01T00:00:00Z"}
    verdicts = {
        "none": None,
        "graded": Verdict(
            **known,
            outcome="graded",
            verdict="failure",
            reason=None,
            note="still held",
            receipt={"findings": findings},
        ),
        "abstained": Verdict(
            **known, outcome="abstained", verdict="abstain", reason="criteria_unclear"
        ),
        "ungraded": Verdict(**known, outcome="ungraded", verdict=None, reason="timeout"),
    }
    cards = {
        f"card_{name}.json": robot_card(saved, verdict, scorers).canonical()
        for name, verdict in verdicts.items()
    }
    return {"record.json": files["record.json"], **cards}


if __name__ == "__main__":
    if sys.argv[1:] == ["--digests"]:
        print(json.dumps({name: digest(data) for name, data in pins().items()}))
    else:
        for name, data in pins().items():
            (HERE / name).write_bytes(data)
