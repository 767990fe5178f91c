"""Small trajectories for tests: built record by record, or read from tests/data/a320."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Record = dict[str, Any]

DATA = Path(__file__).parents[2] / "data" / "a320"
PINNED = Path(__file__).parents[2] / "golden" / "a320"
EXPECTED = json.loads((DATA / "expected.json").read_text(encoding="utf-8"))
BROKEN = "g32_malformed_middle"
READABLE = sorted(set(EXPECTED["cases"]) - {BROKEN})

SURFACE = [
    "advance",
    "list_controls",
    "list_failures",
    "read_ecam",
    "read_state",
    "report_done",
    "set_control",
    "snapshot",
]


def golden(case: str) -> bytes:
    return (DATA / f"{case}.jsonl").read_bytes()


def action(control: Any, value: Any, **more: Any) -> Record:
    return {"control": control, "value": value, **more}


def block(*actions: Record, ordered: bool = False) -> Record:
    return {"block": "b", "ordered": ordered, "actions": list(actions)}


def meta(procedure: Any, optional: Any = None, forbidden: Any = None, **more: Any) -> Record:
    return {
        "type": "meta",
        "run_id": "run-1",
        "scenario": {
            "id": "lab-small",
            "failures": [{"id": "lab.failure"}],
            "ground_truth": {
                "procedure": procedure,
                "optional_actions": optional,
                "forbidden_actions": forbidden,
            },
        },
        "adapter": {"provider": "litellm", "model": "lab/small-1"},
        "tool_surface": list(SURFACE),
        "versions": {"trajectory_schema": "1"},
        **more,
    }


def setup(sim_time: Any = 100.0) -> Record:
    gate = {"passed": True, "ecam": ["LAB FAULT"], "missing": [], "must_not_appear_present": []}
    return {"type": "setup", "sim_time": sim_time, "validity_gate": gate}


def call(name: str, args: Any = None, *, is_error: Any = False, **more: Any) -> Record:
    return {
        "type": "tool_call",
        "name": name,
        "args": {} if args is None else args,
        "is_error": is_error,
        **more,
    }


def command(control: Any, value: Any, **more: Any) -> Record:
    return call("set_control", {"control": control, "value": value}, **more)


def final(*passed: bool, reason: str = "agent_done", **more: Any) -> Record:
    """Return a final record with one check of the end state per argument."""
    judged = {
        "final_state": [{"var": "V", "op": "eq", "value": 1.0, "passed": p} for p in passed],
        "ecam_clear_of": [],
        "all_passed": all(passed),
    }
    return {"type": "final", "reason": reason, "sim_time": 110.0, "success_eval": judged, **more}


def run(head: Record, *calls: Record, end: Record | None = None) -> list[Record]:
    """Return a whole run; each call is a turn of its own unless it has a step."""
    turns = [{"step": step, **each} for step, each in enumerate(calls, start=1)]
    return [head, setup(), *turns, end or final(True)]


def to_bytes(records: list[Record]) -> bytes:
    lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
    return "".join(lines).encode()
