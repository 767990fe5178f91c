"""Measure saved trials against numpy's own archive of the same arrays, in one process.

    python benchmarks/robot_records.py [--steps 5000] [--joints 14] [--json]

The record is a rollout: each step's result is the next step's observation; each step has an event,
a reward, a distance and a contact. Times are CPU times, the least of several rounds.

    size        bytes of all files / bytes of the archive
    columns     the five lists as columns and back / savez and load of ready arrays
    trial       save_trial, and load_trial with its columns read / stack, savez and load
    all_steps   load_trial with every step as an object / savez and load of ready arrays
"""

from __future__ import annotations

import argparse
import io
import json
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from grader_service.records.columns import ColumnReader, ColumnWriter
from grader_service.records.saved import load_trial, save_trial
from grader_service.records.trial import (
    Action,
    Event,
    Observation,
    Scene,
    StepRecord,
    StepResult,
    TrialRecord,
)


def rollout(steps: int, joints: int) -> TrialRecord:
    """Return a record of `steps` steps of a robot with `joints` joints."""
    rng = np.random.default_rng(0)
    record = TrialRecord("pad-01", 0, 7, events=[Event("reset", -1, {"seed": 7})])
    before = Observation(state={"joints": rng.normal(size=joints)}, instruction="push")
    made = []
    for t in range(steps):
        last = t == steps - 1
        after = Observation(state={"joints": rng.normal(size=joints)}, instruction="push")
        info = {"distance": float(rng.random()), "contact": bool(rng.random() < 0.5)}
        result = StepResult(
            after, float(rng.random()), last, "success" if last else None, info=info
        )
        made.append(StepRecord(t, before, Action(rng.normal(size=joints)), result))
        data = {"terminated": last, "truncated": False, "reason": result.termination_reason}
        record.events.append(Event("step", t, data))
        before = after
    record.steps = made
    return record


def lists(record: TrialRecord) -> dict[str, list[Any]]:
    """Return what the record says per step."""
    steps = record.steps
    seen = [steps[0].observation, *(step.result.observation for step in steps)]
    return {
        "actions": [step.action.data for step in steps],
        "joints": [observation.state["joints"] for observation in seen],
        "reward": [step.result.reward for step in steps],
        "distance": [step.result.info["distance"] for step in steps],
        "contact": [step.result.info["contact"] for step in steps],
    }


def stack(values: dict[str, list[Any]]) -> dict[str, Any]:
    return {name: np.array(rows) for name, rows in values.items()}


def archive(arrays: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def unarchive(data: bytes) -> list[Any]:
    with np.load(io.BytesIO(data)) as arrays:
        return [arrays[name] for name in arrays.files]


def write_columns(values: dict[str, list[Any]]) -> tuple[dict[str, Any], dict[str, bytes]]:
    writer = ColumnWriter()
    return {name: writer.column(rows, name) for name, rows in values.items()}, writer.files


def read_columns(columns: dict[str, Any], files: dict[str, bytes], counts: dict[str, int]) -> None:
    reader = ColumnReader(files.__getitem__)
    for name, column in columns.items():
        reader.column(column, counts[name], name)


def best(works: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the least CPU time of each work in ms. They take turns, so that they share noise."""
    times = dict.fromkeys(works, math.inf)
    for _ in range(rounds):
        for name, work in works.items():
            start = time.process_time()
            work()
            times[name] = min(times[name], 1e3 * (time.process_time() - start))
    return times


def measure(steps: int, joints: int, rounds: int) -> dict[str, float]:
    """Return the ratios and what they are made of."""
    record = rollout(steps, joints)
    scene = Scene("pad-01", "push")
    files = save_trial(record, scene)
    values = lists(record)
    counts = {name: len(rows) for name, rows in values.items()}
    columns, column_files = write_columns(values)
    arrays = stack(values)
    archived = archive(arrays)
    size = sum(map(len, files.values()))
    ms = best(
        {
            "stack": lambda: stack(lists(record)),
            "savez": lambda: archive(arrays),
            "load": lambda: unarchive(archived),
            "write_columns": lambda: write_columns(values),
            "read_columns": lambda: read_columns(columns, column_files, counts),
            "save_trial": lambda: save_trial(record, scene),
            "load_trial": lambda: load_trial(files.__getitem__).record.steps[-1],
            "load_all_steps": lambda: list(load_trial(files.__getitem__).record.steps),
        },
        rounds,
    )
    ready = ms["savez"] + ms["load"]
    ratios = {
        "size": size / len(archived),
        "columns": (ms["write_columns"] + ms["read_columns"]) / ready,
        "trial": (ms["save_trial"] + ms["load_trial"]) / (ms["stack"] + ready),
        "all_steps": ms["load_all_steps"] / ready,
    }
    return {
        "steps": steps,
        "joints": joints,
        "archive_bytes": len(archived),
        "trial_bytes": size,
        **{f"{name}_ms": round(value, 2) for name, value in ms.items()},
        **{name: round(value, 3) for name, value in ratios.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--joints", type=int, default=14)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    figures = measure(args.steps, args.joints, args.rounds)
    if args.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:18} {value}")


if __name__ == "__main__":
    main()
