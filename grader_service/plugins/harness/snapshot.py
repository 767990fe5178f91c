"""What a trial is judged and scored by, taken from a live record without holding on to it.

A record keeps every image of a trial alive. A snapshot has copies of the few that a judge looks at
and everything else of the record but images, so that the harness may drop the rest at once.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from grader_service.errors import FrameError, RecordError
from grader_service.records.canonical import scrub_surrogates
from grader_service.records.npy import npy_bytes
from grader_service.records.saved import save_trial
from grader_service.records.trial import (
    Array,
    Event,
    Observation,
    Scene,
    StepRecord,
    StepResult,
    TrialRecord,
    instruction_told,
)

Phase = Literal["first", "last", "parked"]

# Of each phase, by name, as the harness' own grader has it.
MAX_CAMERAS: Final = 4
_CHANNELS: Final = frozenset({1, 3, 4})
# Simulators render pictures that no model can see anything in, 24x24 or 32x32, and the service
# takes none with a side below `_LEAST_SIDE`. These are in pixels.
_GOOD_SIDE: Final = 128
_LEAST_SIDE: Final = 32
_LONGEST_SIDE: Final = 2048
_MAX_INSTRUCTION: Final = 20_000


@dataclass(frozen=True, slots=True)
class Frame:
    """An image of a trial: a copy, or the file that the harness stored it in."""

    phase: Phase
    camera: str
    image: Array | Path

    def load(self) -> Array:
        """Return the image, uint8, (H, W) or (H, W, C), a tiny one enlarged. Raises FrameError."""
        image: Any = self.image
        if isinstance(image, Path):
            try:
                image = np.load(image, allow_pickle=False)
            except (OSError, ValueError, EOFError) as error:
                raise FrameError(f"{self}: {error}") from error
        if image.dtype != np.uint8:
            raise FrameError(f"{self} is of {image.dtype}, not uint8")
        if image.size == 0 or not (
            image.ndim == 2 or (image.ndim == 3 and image.shape[2] in _CHANNELS)  # noqa: PLR2004
        ):
            raise FrameError(f"{self} has the shape {image.shape}, which is no picture's")
        loaded: Array = _enlarged(image)
        if min(loaded.shape[:2]) < _LEAST_SIDE:
            raise FrameError(f"{self} has the shape {image.shape}, too thin for a judge")
        return loaded

    def __str__(self) -> str:
        return f"the {self.phase} frame of camera {self.camera!r}"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One trial, ready to be packed. `instruction` is what the policy was told."""

    client_id: str
    record: Any
    scene: Any
    instruction: str
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class Packed:
    """A submission: the part `trial`, the other parts, and what had to be left out of it."""

    trial: Mapping[str, Any]
    parts: Mapping[str, bytes]
    left_out: list[str] = field(default_factory=list)


def take_snapshot(record: Any, scene: Any, client_id: str) -> Snapshot:
    """Copy what a live record and its scene say; the record may change afterwards."""
    light = copy.copy(record)
    light.steps, light.parked_observation = _without_images(record)
    light.events = list(record.events)
    light.inference_latencies = list(record.inference_latencies)
    light.metadata = dict(record.metadata)
    return Snapshot(
        client_id=client_id,
        record=light,
        scene=scene,
        instruction=instruction_told(record, scene)[0],
        frames=tuple(frames_of(record, max_cameras=MAX_CAMERAS)),
    )


def frames_of(record: Any, *, max_cameras: int | None) -> Iterator[Frame]:
    """Return the first, last and parked frames of a record, copied or by absolute path."""
    if record.steps:
        first, last = record.steps[0], record.steps[-1]
        yield from _phase("first", first.observation.images, first.image_refs, max_cameras)
        yield from _phase(
            "last", last.result.observation.images, last.result_image_refs, max_cameras
        )
    if record.parked_observation is not None:
        yield from _phase("parked", record.parked_observation.images, None, max_cameras)


def _phase(
    phase: Phase, images: Mapping[str, Any], refs: Mapping[str, Any] | None, most: int | None
) -> Iterator[Frame]:
    for camera in sorted(images)[:most]:
        yield Frame(phase, camera, np.array(images[camera]))
    if not images and refs:
        for camera in sorted(refs)[:most]:
            yield Frame(phase, camera, Path(refs[camera].path).absolute())


def _enlarged(image: Array) -> Array:
    """Return a small image with each pixel repeated, so that nothing is made up."""
    height, width = image.shape[:2]
    times = min(-(-_GOOD_SIDE // min(height, width)), _LONGEST_SIDE // max(height, width))
    return image.repeat(times, axis=0).repeat(times, axis=1) if times > 1 else image


def _without_images(record: Any) -> tuple[list[Any], Any]:
    """Return the steps and the parked observation; those that share an observation still do."""
    bare: dict[int, Any] = {}

    def strip(seen: Any) -> Any:
        if seen is None or not seen.images:
            return seen
        if id(seen) not in bare:
            bare[id(seen)] = Observation(
                {}, seen.state, seen.instruction, seen.image_times, seen.state_time, seen.extra
            )
        return bare[id(seen)]

    steps = []
    for step in record.steps:
        before, result = strip(step.observation), step.result
        after = strip(result.observation)
        if before is step.observation and after is result.observation:
            steps.append(step)
            continue
        outcome = StepResult(
            after,
            result.reward,
            result.terminated,
            result.termination_reason,
            result.truncated,
            result.info,
        )
        steps.append(StepRecord(step.t, before, step.action, outcome))
    return steps, strip(record.parked_observation)


def pack(snapshot: Snapshot, *, run: str, rubric: str | None, judge: str | None) -> Packed:
    """Return the submission of a snapshot.

    A frame that is none, and a record that can't be saved exactly, are left out and named: the
    trial is judged all the same.
    """
    left_out: list[str] = []
    parts: dict[str, bytes] = {}
    listed = []
    for number, frame in enumerate(snapshot.frames):
        try:
            parts[f"f{number}"] = npy_bytes(frame.load())
        except FrameError as error:
            left_out.append(error.message)
            continue
        camera = scrub_surrogates(frame.camera)
        listed.append({"camera": camera, "phase": frame.phase, "part": f"f{number}"})
    record, scene = snapshot.record, snapshot.scene
    try:
        files = save_trial(record, scene, instruction_used=snapshot.instruction)
    except RecordError as error:
        left_out.append(f"the steps, because {error.message}")
        files = save_trial(*_what_judges_need(record, scene), instruction_used=snapshot.instruction)
    parts["record"] = files.pop("record.json")
    trial = {
        "kind": "robot",
        "run": run,
        "client_id": snapshot.client_id,
        "rubric": rubric,
        "judge": judge,
        "scene": {
            "id": scrub_surrogates(scene.id),
            # Only a formality beside a record, but it may not be empty.
            "instruction": scrub_surrogates(snapshot.instruction[:_MAX_INSTRUCTION]) or "-",
        },
        "epoch": record.epoch,
        "record": "record",
        "frames": listed,
    }
    return Packed(trial, parts | files, left_out)


def _what_judges_need(record: Any, scene: Any) -> tuple[TrialRecord, Scene]:
    rubric = scene.metadata.get("rubric")
    sources = [event.data.get("source") for event in record.events if event.kind == "operator"]
    judgement = record.operator_judgement
    return (
        TrialRecord(
            scene_id=scene.id,
            epoch=record.epoch,
            seed=record.seed,
            terminated=bool(record.terminated),
            truncated=bool(record.truncated),
            termination_reason=record.termination_reason,
            operator_judgement=judgement if isinstance(judgement, str) else None,
            operator_note=record.operator_note,
            events=[Event("operator", 0, {"source": str(source)}) for source in sources[-1:]],
        ),
        Scene(
            scene.id,
            scene.instruction,
            metadata={"rubric": rubric} if isinstance(rubric, str) else {},
        ),
    )
