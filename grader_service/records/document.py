"""Records and scenes as sections of record.json, and back."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from operator import attrgetter, is_
from typing import Any, TypeVar

from grader_service.errors import RecordError
from grader_service.records.columns import ColumnReader, ColumnWriter, table_count
from grader_service.records.lazy import LazyList
from grader_service.records.tagged import decode, encode
from grader_service.records.trial import (
    RECORD_FIELDS,
    Action,
    Event,
    Observation,
    Scene,
    StepRecord,
    StepResult,
    Target,
    TrialRecord,
    extra_attributes,
)

_STEP = ("t",)
_ACTION = ("data", "meta")
_RESULT = ("reward", "terminated", "termination_reason", "truncated", "info")
_OBSERVATION = ("state", "instruction", "image_times", "state_time", "extra")
_EVENT = ("kind", "t", "data")
_SCENE = ("id", "instruction", "init_seed", "setup", "metadata")
_TARGET = ("kind", "spec")
_APART = frozenset({"steps", "events", "inference_latencies", "parked_observation"})

T = TypeVar("T")


def member(data: Mapping[str, Any], key: str, kind: type[T], where: str) -> T:
    """Return `data[key]`, which must be of exactly this JSON type. Raises RecordError."""
    value = data.get(key)
    if type(value) is not kind:
        found = f"of type {type(value).__name__}" if key in data else "missing"
        raise RecordError(f"{where}: {key!r} is {found}, not of type {kind.__name__}")
    return value


# --- writing -------------------------------------------------------------------------------------


def encode_trial(record: Any, scene: Any, writer: ColumnWriter) -> dict[str, Any]:
    """Return the sections of record.json that hold a record and its scene."""
    fields = {name: getattr(record, name) for name in RECORD_FIELDS if name not in _APART}
    extras = extra_attributes(record)
    fields |= {name: extras[name] for name in extras if not name.startswith("_")}
    events = list(record.events)
    # Inline, so that a verdict, which is one more event, leaves the files of a trial as they are.
    event_writer = ColumnWriter(inline_bytes=math.inf)
    latencies = list(record.inference_latencies)
    return {
        "record": _encode_fields(fields, "record", writer),
        "steps": _encode_steps(list(record.steps), writer),
        "events": event_writer.table(len(events), _values(events, _EVENT), "events"),
        "inference_latencies": writer.table(
            len(latencies), {"seconds": latencies}, "inference_latencies"
        ),
        "parked": _encode_object(record.parked_observation, _OBSERVATION, "parked", writer),
        "scene": {
            **_encode_object(scene, _SCENE, "scene", writer),
            "target": _encode_object(scene.target, _TARGET, "scene.target", writer),
        },
    }


def _encode_object(value: Any, names: Iterable[str], where: str, writer: ColumnWriter) -> Any:
    if value is None:
        return None
    return _encode_fields({name: getattr(value, name) for name in names}, where, writer)


def _encode_fields(fields: Mapping[str, Any], where: str, writer: ColumnWriter) -> dict[str, Any]:
    return {name: encode(fields[name], f"{where}.{name}", writer.put) for name in fields}


def _encode_steps(steps: list[Any], writer: ColumnWriter) -> dict[str, Any]:
    results = [step.result for step in steps]
    before = [step.observation for step in steps]
    after = [result.observation for result in results]
    chained = all(map(is_, before[1:], after))
    observations = [*before[:1], *after] if chained else [*before, *after]
    columns = {
        **_values(steps, _STEP),
        **_values([step.action for step in steps], _ACTION),
        **_values(results, _RESULT),
    }
    return {
        "chained": chained,
        "steps": writer.table(len(steps), columns, "steps"),
        "observations": writer.table(
            len(observations), _values(observations, _OBSERVATION), "observations"
        ),
    }


def _values(items: list[Any], names: Iterable[str]) -> dict[str, list[Any]]:
    return {name: list(map(attrgetter(name), items)) for name in names}


# --- reading -------------------------------------------------------------------------------------


def decode_record(document: Mapping[str, Any], reader: ColumnReader) -> TrialRecord:
    """Return the record in a document. Its steps and events are decoded when first read."""
    values = _decode_fields(member(document, "record", dict, "record.json"), "record", reader)
    member(values, "scene_id", str, "record")
    member(values, "epoch", int, "record")
    member(values, "metadata", dict, "record")
    extras = {name: values.pop(name) for name in [*values] if name not in RECORD_FIELDS}
    values["steps"] = _decode_steps(member(document, "steps", dict, "record.json"), reader)
    values["events"] = _decode_events(document.get("events"), reader)
    latencies = document.get("inference_latencies")
    table_count(latencies, "inference_latencies", ("seconds",))
    values["inference_latencies"] = list(reader.table(latencies, "inference_latencies")["seconds"])
    values["parked_observation"] = _decode_object(document, "parked", Observation, reader)
    record: TrialRecord = _build(TrialRecord, values, "record")
    for name, value in extras.items():
        if name.startswith("_"):
            raise RecordError(f"record has a private attribute {name!r}")
        setattr(record, name, value)
    return record


def decode_scene(document: Mapping[str, Any], reader: ColumnReader) -> Scene:
    """Return the scene in a document. Raises RecordError."""
    data = dict(member(document, "scene", dict, "record.json"))
    target = _decode_object(data, "target", Target, reader)
    data.pop("target", None)
    values = _decode_fields(data, "scene", reader)
    member(values, "id", str, "scene")
    member(values, "instruction", str, "scene")
    member(values, "metadata", dict, "scene")
    scene: Scene = _build(Scene, {**values, "target": target}, "scene")
    return scene


def _decode_fields(data: Mapping[str, Any], where: str, reader: ColumnReader) -> dict[str, Any]:
    return {name: decode(data[name], f"{where}.{name}", reader.get) for name in data}


def _decode_object(
    parent: Mapping[str, Any], key: str, cls: type[Any], reader: ColumnReader
) -> Any:
    if parent.get(key) is None:
        return None
    return _build(cls, _decode_fields(member(parent, key, dict, "record.json"), key, reader), key)


def _build(cls: Callable[..., T], values: dict[str, Any], where: str) -> T:
    try:
        return cls(**values)
    except TypeError as error:
        raise RecordError(f"{where} has other fields than it must: {error}") from error


def _decode_events(data: Any, reader: ColumnReader) -> LazyList[Event]:
    @cache
    def columns() -> list[Sequence[Any]]:
        return _columns(reader.table(data, "events"), _EVENT)

    def make(start: int, stop: int) -> list[Event]:
        return list(map(Event, *(column[start:stop] for column in columns())))

    return LazyList(table_count(data, "events", _EVENT), make)


def _decode_observations(data: Any, reader: ColumnReader) -> LazyList[Observation]:
    @cache
    def columns() -> list[Sequence[Any]]:
        return _columns(reader.table(data, "observations"), _OBSERVATION)

    def make(start: int, stop: int) -> list[Observation]:
        images: list[dict[str, Any]] = [{} for _ in range(start, stop)]
        return list(map(Observation, images, *(column[start:stop] for column in columns())))

    return LazyList(table_count(data, "observations", _OBSERVATION), make)


def _decode_steps(data: Mapping[str, Any], reader: ColumnReader) -> LazyList[StepRecord]:
    count = table_count(data.get("steps"), "steps", (*_STEP, *_ACTION, *_RESULT))
    chained = member(data, "chained", bool, "steps")
    observations = _decode_observations(data.get("observations"), reader)
    if len(observations) != (count + 1 if chained and count else 2 * count):
        raise RecordError(f"{count} steps can't have {len(observations)} observations")

    @cache
    def columns() -> list[list[Sequence[Any]]]:
        table = reader.table(data["steps"], "steps")
        return [_columns(table, names) for names in (_STEP, _ACTION, _RESULT)]

    def make(start: int, stop: int) -> list[StepRecord]:
        (ts,), action, result = ([c[start:stop] for c in group] for group in columns())
        if chained:
            seen = observations[start : stop + 1]
            before, after = seen[:-1], seen[1:]
        else:
            before, after = observations[start:stop], observations[count + start : count + stop]
        return list(
            map(StepRecord, ts, before, map(Action, *action), map(StepResult, after, *result))
        )

    return LazyList(count, make)


def _columns(table: Mapping[str, Sequence[Any]], names: Iterable[str]) -> list[Sequence[Any]]:
    return [table[name] for name in names]
