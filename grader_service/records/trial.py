"""Trials in memory, with the attribute surface of `inspect_robots`.

A scorer written for `inspect_robots` runs on these objects unchanged. Steps and events may be any
sequence; those of a saved record are decoded when they are first read.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableSequence, Sequence
from dataclasses import dataclass, field, fields
from types import SimpleNamespace
from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Observation:
    """What the robot saw and felt at one instant; `images` by camera, `state` by name."""

    images: Mapping[str, Array] = field(default_factory=dict)
    state: Mapping[str, Array] = field(default_factory=dict)
    instruction: str | None = None
    image_times: Mapping[str, float] = field(default_factory=dict)
    state_time: float = 0.0
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Action:
    """One action that was applied, `data` in the units of the embodiment's action space."""

    data: Array
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class StepResult:
    """What one action led to. `info` carries what a simulator tells, such as `distance`."""

    observation: Observation
    reward: float | None = None
    terminated: bool = False
    termination_reason: str | None = None
    truncated: bool = False
    info: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class StepRecord:
    """One step: the observation before, the action, and its result."""

    t: int
    observation: Observation
    action: Action
    result: StepResult
    image_refs: Mapping[str, Any] | None = None
    result_image_refs: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Event:
    """One entry of a trial's transcript at step `t` (-1 before the first)."""

    kind: str
    t: int
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    """What success means to the embodiment."""

    kind: str
    spec: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Scene:
    """One initial condition of a benchmark."""

    id: str
    instruction: str
    target: Target | None = None
    init_seed: int | None = None
    setup: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class TrialRecord:
    """What was recorded of one trial: the only thing that scorers read.

    `status` is "success" when the trial ran to its end, whatever the robot achieved, else "error"
    or "cancelled".
    """

    scene_id: str
    epoch: int
    seed: int | None
    steps: Sequence[StepRecord] = field(default_factory=list)
    parked_observation: Observation | None = None
    terminated: bool = False
    truncated: bool = False
    termination_reason: str | None = None
    status: str = "success"
    error: str | None = None
    inference_latencies: MutableSequence[float] = field(default_factory=list)
    operator_judgement: str | None = None
    operator_note: str | None = None
    events: MutableSequence[Event] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    policy_transcript: Any = None


RECORD_FIELDS = tuple(item.name for item in fields(TrialRecord))


def extra_attributes(record: Any) -> dict[str, Any]:
    """Return what a record carries beyond the known fields: those of a newer harness."""
    return {name: value for name, value in vars(record).items() if name not in RECORD_FIELDS}


def from_upstream(record: Any, scene: Any) -> tuple[TrialRecord, Scene]:
    """Return our form of a live `inspect_robots` record and scene; arrays and dicts are shared.

    An observation that two steps share stays shared, as the rollout leaves it.
    """
    made: tuple[TrialRecord, Scene] = _convert(
        record,
        scene,
        _by_name(Observation, Action, StepResult, StepRecord, Event, TrialRecord, Target, Scene),
    )
    return made


def to_upstream(record: TrialRecord, scene: Scene) -> tuple[Any, Any]:
    """Return `inspect_robots` objects of a record and scene, for graders that build on its types.

    Raises ImportError where `inspect_robots` is not installed.
    """
    from inspect_robots import rollout, transcript, types
    from inspect_robots import scene as scenes

    return _convert(
        record,
        scene,
        _by_name(
            types.Observation,
            types.Action,
            types.StepResult,
            rollout.StepRecord,
            transcript.Event,
            rollout.TrialRecord,
            scenes.Target,
            scenes.Scene,
        ),
    )


def _by_name(*classes: type) -> SimpleNamespace:
    return SimpleNamespace(**{cls.__name__: cls for cls in classes})


def instruction_told(record: Any, scene: Any, *, used: str | None = None) -> tuple[str, str]:
    """Return the instruction that the policy really got, and where it was found.

    `used` is the one that was noted with the record. A harness may word a scene's instruction anew
    for each epoch; what the policy was told stands in its first observation.
    """
    if used:
        return used, "record"
    told = record.steps[0].observation.instruction if record.steps else None
    if isinstance(told, str) and told.strip():
        return told, "observation"
    return str(scene.instruction), "scene"


def _convert(record: Any, scene: Any, to: SimpleNamespace) -> tuple[Any, Any]:
    seen: dict[int, Any] = {}

    def copied(source: Any, cls: type, **changed: Any) -> Any:
        kept = {item.name: getattr(source, item.name) for item in fields(cls)}
        return cls(**{**kept, **changed})

    def observation(source: Any) -> Any:
        if source is None:
            return None
        if id(source) not in seen:
            seen[id(source)] = copied(source, to.Observation)
        return seen[id(source)]

    def step(source: Any) -> Any:
        result = copied(
            source.result, to.StepResult, observation=observation(source.result.observation)
        )
        return copied(
            source,
            to.StepRecord,
            observation=observation(source.observation),
            action=copied(source.action, to.Action),
            result=result,
        )

    made = copied(
        record,
        to.TrialRecord,
        steps=[step(source) for source in record.steps],
        parked_observation=observation(record.parked_observation),
        inference_latencies=list(record.inference_latencies),
        events=[copied(event, to.Event) for event in record.events],
        metadata=dict(record.metadata),
    )
    for name, value in extra_attributes(record).items():
        setattr(made, name, value)
    target = None if scene.target is None else copied(scene.target, to.Target)
    return made, copied(scene, to.Scene, target=target)
