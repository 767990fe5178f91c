"""Logs of `inspect_robots` (EvalLog) as the JSON that they are on disk.

They are read and written raw: releases share a schema version, yet an EvalLog object of one can't
hold what another one wrote.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from grader_service.client.disk import read_bytes
from grader_service.errors import ConflictError, InputError
from grader_service.records.strict_json import strict_loads
from grader_service.scoring import Dialect

SCHEMA_VERSION: Final = 1
# Transcripts of policies are JSON of any depth inside a log.
_MAX_DEPTH: Final = 250
_UNFINISHED: Final = (".tmp", ".live.json")
_SECTIONS: Final = {"eval": dict, "results": dict, "stats": dict, "samples": list}
# One entry for each trial of a scene, beside `epochs`.
_PARALLEL: Final = (
    "operator_judgements",
    "judgement_sources",
    "operator_notes",
    "trial_metadata",
    "termination_reasons",
)


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log as it was read: its bytes and the value of its JSON."""

    path: Path
    data: bytes
    value: dict[str, Any]

    @property
    def dialect(self) -> Dialect:
        """Whether scorers may abstain in this log; it shows in its results, not in a version."""
        return "newest" if "abstentions" in self.value["results"] else "0.60"


def find_logs(
    arguments: Iterable[str], *, unfinished: Callable[[Path], object] = lambda _: None
) -> Iterator[Path]:
    """Return the logs that files and folders name, each once, in sorted order.

    In folders, other JSON files are passed over, and so are logs of runs that still go on: these
    are handed to `unfinished`. Raises InputError for an argument that names no log.
    """
    seen: set[str] = set()
    for argument in arguments:
        path = Path(argument)
        found = [path] if path.is_file() else list(_in_folder(path, unfinished))
        if not found:
            raise InputError(
                f"there is no log at {argument}",
                fix="name the .json file that `inspect-robots run` wrote, or its folder",
            )
        for log in found:
            key = os.path.realpath(log)
            if key not in seen:
                seen.add(key)
                yield log


def _in_folder(folder: Path, unfinished: Callable[[Path], object]) -> Iterator[Path]:
    for path in sorted(folder.rglob("*.json")):
        if path.name.endswith(_UNFINISHED):
            unfinished(path)
        elif is_log(path):
            yield path


def is_log(path: Path) -> bool:
    """Say whether a file is JSON with the sections of a log."""
    try:
        return _has_sections(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError):
        return False


def _has_sections(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(value.get(name), kind) for name, kind in _SECTIONS.items()
    )


def read_log(path: Path) -> LogFile:
    """Read a finished log.

    Raises InputError for one that can't be read, is still being written, or is of a shape that
    nobody here knows.
    """
    if path.name.endswith(_UNFINISHED) or path.with_suffix(".json.tmp").exists():
        raise _unfinished(path)
    data = read_bytes(path)
    try:
        value = strict_loads(data, max_depth=_MAX_DEPTH)
    except ValueError as error:
        raise InputError(
            f"{path} is not JSON: {error}", fix="name a log of inspect-robots"
        ) from error
    if isinstance(value, dict) and value.get("status") == "started":
        raise _unfinished(path)
    problem = _unknown_shape(value)
    if problem is not None:
        raise InputError(
            f"{path} is no log that can be harvested: {problem}",
            fix="name a log that inspect-robots 0.60 or newer wrote",
        )
    return LogFile(path, data, value)


def _unfinished(path: Path) -> InputError:
    return InputError(
        f"{path} is still being written",
        fix="wait for the end of the run; if it crashed, delete its .tmp and .live.json files",
    )


def _unknown_shape(value: Any) -> str | None:
    """Say what differs from the shape of a log, if anything does."""
    if not _has_sections(value):
        return "it lacks the sections of one"
    if value.get("version") != SCHEMA_VERSION:
        return f"its schema version is {value.get('version')!r}, not {SCHEMA_VERSION}"
    abstentions = value["results"].get("abstentions", {})
    if not isinstance(value["results"].get("metrics"), dict) or not isinstance(abstentions, dict):
        return "its results hold no metrics"
    if not isinstance(value["eval"].get("task"), str):
        return "it names no task"
    if not _tells_state(value):
        return "it does not tell how its run ended"
    for sample in value["samples"]:
        if not isinstance(sample, dict) or not isinstance(sample.get("scene_id"), str):
            return "a sample names no scene"
        problem = _unknown_sample(sample)
        if problem is not None:
            return f"in scene {sample['scene_id']!r} {problem}"
    return None


def _unknown_sample(sample: Mapping[str, Any]) -> str | None:
    epochs = sample.get("epochs")
    if not _tells_state(sample):
        return "nothing tells how it ended"
    if not isinstance(sample.get("reduced"), dict) or not isinstance(epochs, list):
        return "there are no scores"
    if not all(isinstance(epoch, dict) and _are_numbers(epoch) for epoch in epochs):
        return "an epoch holds something other than numbers"
    for name in _PARALLEL:
        entries = sample.get(name)
        if not isinstance(entries, list) or len(entries) != len(epochs):
            return f"{name} does not have one entry for each epoch"
    if not all(isinstance(metadata, dict) for metadata in sample["trial_metadata"]):
        return "a trial's metadata is no object"
    return None


def _tells_state(part: Mapping[str, Any]) -> bool:
    return isinstance(part.get("status"), str) and isinstance(part.get("error", 0), str | None)


def _are_numbers(scores: Mapping[str, Any]) -> bool:
    return all(
        value is None or (isinstance(value, int | float) and not isinstance(value, bool))
        for value in scores.values()
    )


def write_log(log: LogFile, value: Mapping[str, Any]) -> None:
    """Replace a log by another value, in the harness' own layout, whole or not at all.

    Its permissions stay. Raises ConflictError when the file is not what it was when it was read,
    InputError when it can't be written.
    """
    data = json.dumps(value, indent=2, sort_keys=True, allow_nan=False).encode()
    # A log may be a link to where logs are kept: the link stays.
    path = log.path.resolve()
    try:
        number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        try:
            with os.fdopen(number, "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(number, path.stat().st_mode & 0o7777)
                os.fsync(number)
            if path.read_bytes() != log.data:
                raise ConflictError(
                    f"{log.path} was changed while it was harvested", fix="harvest it again"
                )
            os.replace(name, path)  # noqa: PTH105  # what mkstemp gives is a name
        finally:
            Path(name).unlink(missing_ok=True)
        _sync_folder(path.parent)
    except OSError as error:
        raise InputError(
            f"{log.path} can't be written: {error.strerror}",
            fix="check its folder's permissions and space",
        ) from error


def _sync_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
