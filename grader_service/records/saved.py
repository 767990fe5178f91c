"""Saved robot trials, `trial-record/1`: record.json and the arrays that it names.

record.json is canonical JSON:

    {"schema": "trial-record/1",
     "record": {...},           what the record says as a whole, values as `tagged` writes them
     "steps": {"chained", "steps": table, "observations": table},
     "events": table, "inference_latencies": table,
     "parked": {...} | null,    the parked observation
     "scene": {"id", "instruction", "target", "init_seed", "setup", "metadata"},
     "frames": [{"camera", "phase", "sha256", "media_type", "size"}, ...],
     "instruction_used": string | null,
     "planned": {"epochs", "reducer", "scorers"}}

A table is {"count", "columns": {name: column}}, columns as `columns` writes them, named as the
attributes of steps with their actions and results, of observations, and of events. Where `chained`
is true, each step's observation is the result of the step before it, so that n steps have n + 1
observations; else the n observations are followed by the n results. Everything comes back exactly
but the images of observations and the references to them (`images`, `image_refs`,
`result_image_refs`): of those a saved trial keeps the frames listed, nothing else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from grader_service.errors import RecordError
from grader_service.records.canonical import canonical_bytes, digest
from grader_service.records.columns import ColumnReader, ColumnWriter, is_sha256, read_part
from grader_service.records.document import decode_record, decode_scene, encode_trial, member
from grader_service.records.strict_json import strict_loads
from grader_service.records.trial import Scene, TrialRecord

SCHEMA = "trial-record/1"
RECORD_PATH = "record.json"
# Each column that is a file is a part of a submission, and of these a service takes few. Of a robot
# with more quantities all of them stand in record.json. All: with some of them it would depend on a
# later verdict which.
MAX_FILES = 32
PHASES = ("first", "last", "parked")


@dataclass(frozen=True)
class FrameRef:
    """A frame of a trial: `sha256` and `size` (bytes) are those of its file as received."""

    camera: str
    phase: Literal["first", "last", "parked"]
    sha256: str
    media_type: str
    size: int


@dataclass(frozen=True)
class Planned:
    """What the run was to do with its trials; None or empty where that is not known."""

    epochs: int | None = None
    reducer: str | None = None
    scorers: tuple[str, ...] = ()


@dataclass(frozen=True)
class SavedTrial:
    """A trial as loaded. `digest` is that of the canonical bytes of its record.json."""

    record: TrialRecord
    scene: Scene
    frames: tuple[FrameRef, ...]
    instruction_used: str | None
    planned: Planned
    digest: str


@dataclass(frozen=True)
class RecordHead:
    """What record.json tells by itself; `columns` are the digests of the arrays it needs."""

    canonical: bytes
    digest: str
    columns: tuple[str, ...]
    frames: tuple[FrameRef, ...]
    scene_id: str
    epoch: int


def save_trial(
    record: Any,
    scene: Any,
    *,
    frames: Sequence[FrameRef] = (),
    instruction_used: str | None = None,
    planned: Planned = Planned(),
) -> dict[str, bytes]:
    """Return the files of a trial by relative path: record.json and columns/<sha256>.npy.

    `record` and `scene` are ours or live ones of `inspect_robots`. The same trial gives the same
    bytes. Raises RecordError, naming the place, for what can't be saved exactly.
    """
    writer = ColumnWriter()
    trial = encode_trial(record, scene, writer)
    if len(writer.files) > MAX_FILES:
        writer = ColumnWriter(inline_bytes=math.inf)
        trial = encode_trial(record, scene, writer)
    document = {
        "schema": SCHEMA,
        **trial,
        "frames": [asdict(frame) for frame in frames],
        "instruction_used": instruction_used,
        "planned": asdict(planned),
    }
    return {RECORD_PATH: _checked(document), **writer.files}


def load_trial(read: Callable[[str], bytes], *, check: bool = False) -> SavedTrial:
    """Return the trial whose files `read` gives by relative path.

    Steps and events are decoded when they are first read, so a malformed column may show only
    then; with `check` all of them are read at once. Raises RecordError for everything malformed.
    """
    document, canonical = _parse(read_part(read, RECORD_PATH))
    reader = ColumnReader(read)
    saved = SavedTrial(
        record=decode_record(document, reader),
        scene=decode_scene(document, reader),
        frames=_frames(document),
        instruction_used=_text_or_none(document, "instruction_used"),
        planned=_planned(document),
        digest=digest(canonical),
    )
    if check:
        for lazy in (saved.record.steps, saved.record.events):
            list(lazy)
    return saved


def parse_record_json(data: bytes) -> RecordHead:
    """Return what record.json says without its columns. Raises RecordError."""
    document, canonical = _parse(data)
    record = member(document, "record", dict, RECORD_PATH)
    _text_or_none(document, "instruction_used")
    _planned(document)
    return RecordHead(
        canonical=canonical,
        digest=digest(canonical),
        columns=_columns_named(document),
        frames=_frames(document),
        scene_id=member(record, "scene_id", str, "record"),
        epoch=member(record, "epoch", int, "record"),
    )


def with_frames(record_json: bytes, frames: Sequence[FrameRef]) -> bytes:
    """Return the canonical record.json with its frames filled in, where it lists none yet.

    Raises RecordError when it lists others already.
    """
    document, _ = _parse(record_json)
    if _frames(document) not in ((), tuple(frames)):
        raise RecordError(
            "record.json lists other frames than those that came with it",
            fix="submit the frames that it lists, or leave its list empty",
        )
    return _checked({**document, "frames": [asdict(frame) for frame in frames]})


def _checked(document: dict[str, Any]) -> bytes:
    return parse_record_json(canonical_bytes(document)).canonical


def _parse(data: bytes) -> tuple[dict[str, Any], bytes]:
    try:
        document = strict_loads(data)
        canonical = canonical_bytes(document)
    except ValueError as error:
        raise RecordError(f"record.json is not JSON: {error}") from error
    if canonical != data:
        # One reading of all ways to write a value: 1.0 is the integer 1, as in RFC 8785.
        document = json.loads(canonical)
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise RecordError(
            f"record.json does not have the schema {SCHEMA}", fix="write it with save_trial"
        )
    return document, canonical


def _columns_named(document: Any) -> tuple[str, ...]:
    """Return the digests of the arrays that are kept as files, sorted."""
    named = set()
    rest = [document]
    while rest:
        value = rest.pop()
        if isinstance(value, list):
            rest += value
        elif isinstance(value, dict):
            rest += value.values()
            if value.keys() == {"$column"}:
                named.add(_sha256(value["$column"], "a $column"))
    return tuple(sorted(named))


def _frames(document: Mapping[str, Any]) -> tuple[FrameRef, ...]:
    listed = [] if document.get("frames") is None else member(document, "frames", list, RECORD_PATH)
    frames = []
    for data in listed:
        if not isinstance(data, dict) or data.get("phase") not in PHASES:
            raise RecordError(f"record.json: each frame has a phase, one of {', '.join(PHASES)}")
        size = member(data, "size", int, "a frame")
        if size < 0:
            raise RecordError("record.json: a frame has a negative size")
        frames.append(
            FrameRef(
                camera=member(data, "camera", str, "a frame"),
                phase=data["phase"],
                sha256=_sha256(data.get("sha256"), "a frame's sha256"),
                media_type=member(data, "media_type", str, "a frame"),
                size=size,
            )
        )
    return tuple(frames)


def _planned(document: Mapping[str, Any]) -> Planned:
    data = member(document, "planned", dict, RECORD_PATH)
    epochs = None if data.get("epochs") is None else member(data, "epochs", int, "planned")
    scorers = member(data, "scorers", list, "planned")
    if not all(isinstance(name, str) for name in scorers):
        raise RecordError("planned 'scorers' holds something other than names")
    return Planned(epochs, _text_or_none(data, "reducer"), tuple(scorers))


def _text_or_none(data: Mapping[str, Any], key: str) -> str | None:
    return None if data.get(key) is None else member(data, key, str, RECORD_PATH)


def _sha256(value: Any, what: str) -> str:
    if not is_sha256(value):
        raise RecordError(f"record.json: {what} is no sha256 of 64 lower-case hex digits")
    return value
