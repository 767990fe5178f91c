"""Trials on disk: saved records, A320 trajectories, and folders with a trials.json."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from grader_service.errors import InputError, RecordError
from grader_service.records.saved import SavedTrial, load_trial
from grader_service.records.strict_json import parse_strict
from grader_service.records.trajectory import parse_trajectory
from grader_service.records.verdict import Verdict, effective_verdict

# Lies beside an exported record or trajectory.
VERDICTS: Final = "verdicts.jsonl"


@dataclass(frozen=True, slots=True)
class Found:
    """One input: a trajectory file, the folder of a saved record, or one that has a trials.json."""

    kind: Literal["a320", "record", "trials"]
    path: Path


def find_inputs(arguments: Iterable[str]) -> Iterator[Found]:
    """Return the inputs that files, folders and glob patterns name, each once, in sorted order.

    A folder is searched for saved records, trials.json and *.jsonl files. What is named and is not
    there raises InputError.
    """
    seen: set[Path] = set()
    for argument in arguments:
        found = list(_expand(argument))
        if not found:
            raise InputError(
                f"nothing to read at {argument}",
                fix="name a .jsonl file, a saved record's folder, or a folder with trials.json",
            )
        for item in found:
            key = item.path.resolve()
            if key not in seen:
                seen.add(key)
                yield item


def _expand(argument: str) -> Iterator[Found]:
    path = Path(argument)
    if path.is_dir():
        yield from _in_folder(path)
    elif path.exists():
        yield _file(path)
    elif glob.has_magic(argument):
        # Not Path.glob: the pattern is whole, and may be absolute.
        for match in sorted(glob.glob(argument, recursive=True)):  # noqa: PTH207
            matched = Path(match)
            if not matched.is_dir():
                yield _file(matched)
            elif (matched / "record.json").exists():
                yield Found("record", matched)


def _file(path: Path) -> Found:
    if path.name == "record.json":
        return Found("record", path.parent)
    if path.name == "trials.json":
        return Found("trials", path.parent)
    return Found("a320", path)


def _in_folder(folder: Path) -> Iterator[Found]:
    for here, folders, files in os.walk(folder):
        folders.sort()
        if "record.json" in files:
            folders.clear()
            yield Found("record", Path(here))
            continue
        if "trials.json" in files:
            yield Found("trials", Path(here))
        for name in sorted(files):
            if name.endswith(".jsonl") and name != VERDICTS:
                yield Found("a320", Path(here) / name)


def read_bytes(path: Path) -> bytes:
    """Return a file's bytes. Raises InputError when it can't be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path} can't be read: {error.strerror}", fix="check the path and its permissions"
        ) from error


def read_trajectory(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Return the records of an A320 trajectory. Raises TrajectoryError or InputError."""
    return parse_trajectory(read_bytes(Path(path)))


@dataclass(frozen=True, slots=True)
class SavedFolder:
    """A saved robot trial and the verdicts that lie beside it."""

    saved: SavedTrial
    verdicts: Sequence[Verdict]

    @property
    def effective(self) -> Verdict | None:
        return effective_verdict(self.verdicts)


def read_saved(folder: Path) -> SavedFolder:
    """Read the folder of a saved robot trial. Raises RecordError or InputError."""

    def read(name: str) -> bytes:
        return read_bytes(folder / name)

    verdicts = folder / VERDICTS
    return SavedFolder(
        load_trial(read),
        list(_read_verdicts(read_bytes(verdicts))) if verdicts.exists() else [],
    )


def _read_verdicts(data: bytes) -> Iterator[Verdict]:
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        value = parse_strict(line, what=f"line {number} of verdicts.jsonl")
        try:
            yield Verdict(**value)
        except TypeError as error:
            raise RecordError(
                f"line {number} of verdicts.jsonl is no verdict: {error}",
                fix="export the run again",
            ) from error
