"""Trials to save, and a comparison that lets nothing pass: types, signs of zero, order of keys."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from hypothesis import settings

from grader_service.records.lazy import LazyList
from grader_service.records.saved import SavedTrial, load_trial, save_trial
from grader_service.records.trial import (
    Action,
    Event,
    Observation,
    Scene,
    StepRecord,
    StepResult,
    Target,
    TrialRecord,
)

thorough = settings(max_examples=150)

PLAIN_SCENE = Scene("pad-01", "push the cube")


def through_disk(record: Any, scene: Any = PLAIN_SCENE, **options: Any) -> SavedTrial:
    """Return the trial as it comes back from its files."""
    return load_trial(save_trial(record, scene, **options).__getitem__)


def step(t: int, **result: Any) -> StepRecord:
    """Return one step whose result has these fields."""
    return StepRecord(t, Observation(), Action(np.zeros(2)), StepResult(Observation(), **result))


def record_of(*results: Mapping[str, Any], **fields: Any) -> TrialRecord:
    """Return a record with a step for each result."""
    steps = [step(t, **result) for t, result in enumerate(results)]
    return TrialRecord("pad-01", 0, None, steps=steps, **fields)


def rollout(steps: int, joints: int = 14) -> TrialRecord:
    """Return a record as a rollout leaves it: a result is what the next step observes."""
    rng = np.random.default_rng(steps)
    record = TrialRecord("pad-01", 2, 7, events=[Event("reset", -1, {"seed": 7})])
    before = Observation(state={"joints": rng.normal(size=joints)}, instruction="push the cube")
    made = []
    for t in range(steps):
        if t % 8 == 0:
            latency = float(rng.random())
            record.inference_latencies.append(latency)
            record.events.append(Event("inference", t, {"latency_s": latency, "chunk_len": 8}))
        last = t == steps - 1
        after = Observation(state={"joints": rng.normal(size=joints)}, state_time=0.05 * t)
        reason = "success" if last else None
        info = {"distance": float(rng.random()), "contact": bool(rng.random() < 0.5)}
        result = StepResult(after, float(rng.random()), last, reason, info=info)
        made.append(StepRecord(t, before, Action(rng.normal(size=joints)), result))
        data = {"terminated": last, "truncated": False, "reason": reason}
        record.events.append(Event("step", t, data))
        before = after
    record.steps = made
    record.terminated, record.termination_reason = True, "success"
    return record


def odd_values() -> dict[str, Any]:
    """Return one of everything that JSON lacks, merges or reorders."""
    return {
        "zulu before alpha": {"z": 1, "a": 2},
        "one": [1, 1.0, True, "1", np.float32(1), np.float64(1), np.int64(1), np.bool_(True)],
        "zero": [0, 0.0, -0.0, False, "", None],
        "floats": [0.1, 1e300, 5e-324, math.nan, math.inf, -math.inf, 2.0**53],
        "integers": [2**53 - 1, 2**53, -(2**63), 10**400],
        "numpy": [
            np.float16(0.1),
            np.float32(0.1),
            np.float64("nan"),
            np.uint64(2**64 - 1),
            np.complex128(1 - 2j),
            np.datetime64("2031-01-01T00:00:00", "ms"),
            np.timedelta64(5, "s"),
            np.str_("0.25"),
            np.bytes_(b"\x00\xff"),
        ],
        "arrays": [
            np.array(0.7),
            np.array([-0.0, math.nan]),
            np.zeros((2, 0, 3), np.int16),
            np.arange(4096.0).reshape(64, 64),
            np.arange(3, dtype=">f4"),
            np.array(["ä", "b"]),
            np.asfortranarray(np.arange(6).reshape(2, 3)),
        ],
        "tuples": ((), (1, (2.0, [3])), [()]),
        "bytes": b"\x00\xff",
        "keys": {1: "a", "1": "b", ("x", 2.0): "c", None: "d"},
        "$float": {"$int": "1", "plain": {"$array": None}},
        "empty": {},
        "text": "naïve \u2028 \U0001f916",
    }


def odd_bool(value: bool) -> Any:
    """Return numpy's bool, which is not Python's."""
    return np.bool_(value)


def odd_trial() -> tuple[TrialRecord, Scene]:
    """Return a record and a scene with odd values in every place that takes any."""
    odd = odd_values()
    kinds: list[Any] = [
        1,
        1.0,
        True,
        None,
        "0.25",
        np.float32(0.5),
        math.nan,
        2**70,
        [1, 2],
        (1, 2),
        b"x",
    ]
    steps = []
    for t, value in enumerate(kinds * 3):
        result = StepResult(
            Observation(state={"q": np.full(3, t, np.float32)}, image_times={"front": 0.1 * t}),
            reward=value,
            terminated=odd_bool(t == 5) if t % 2 else False,
            info={"distance": value, f"only {t % 3}": t} if t % 4 else {},
        )
        observation = Observation(
            instruction=None if t % 2 else "stack",
            state={"ragged": np.arange(t), "wide": np.full((2, 2), t)},
            extra={"approvals": [{"t": t, "detail": None}] * (t % 2), "env_step": t},
        )
        action = Action(np.arange(t % 3, dtype=np.int8), {"chunk": (t, "a")})
        steps.append(StepRecord(3 * t, observation, action, result))
    record = TrialRecord(
        "pad-01",
        1,
        None,
        steps=steps,
        parked_observation=Observation(state={"q": np.ones(2)}, extra=odd),
        events=[Event("reset", -1, {"seed": None}), Event("note", 0, odd), Event("note", 1, {})],
        inference_latencies=[0.1, 0.0, math.nan],
        operator_judgement=" Yes ",
        metadata=odd,
        policy_transcript=[{"role": "user", "content": [{"text": "go"}]}],
    )
    scene = Scene(
        "pad-01", "stack", Target("stacked", {"tolerance": 0.0, "on": ("a", "b")}), 3, None, odd
    )
    return record, scene


def assert_same(one: Any, other: Any, where: str = "it") -> None:
    """Fail unless both are the same to every reader."""
    if isinstance(one, list | LazyList) and isinstance(other, list | LazyList):
        one, other = list(one), list(other)
    assert type(one) is type(other), f"{where}: {type(one)} became {type(other)}"
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype, where
        assert one.shape == other.shape, where
        assert one.tobytes() == other.tobytes(), where
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), where
        for row, (item, twin) in enumerate(zip(one, other, strict=True)):
            assert_same(item, twin, f"{where}[{row}]")
    elif isinstance(one, dict):
        assert_same(list(one), list(other), f"keys of {where}")
        for key in one:
            assert_same(one[key], other[key], f"{where}[{key!r}]")
    elif is_dataclass(one):
        for field in fields(one):
            assert_same(getattr(one, field.name), getattr(other, field.name), field.name)
    else:
        assert repr(one) == repr(other), where
