"""Trials on disk: saved records, A320 trajectories, folders of trials, logs of the harness."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from grader_service.errors import InputError, RecordError
from grader_service.records.manifest import MANIFEST_PATH
from grader_service.records.manifest import SCHEMA as MANIFEST_SCHEMA
from grader_service.records.saved import RECORD_PATH, SavedTrial, load_trial
from grader_service.records.strict_json import parse_strict
from grader_service.records.trajectory import parse_trajectory
from grader_service.records.verdict import Verdict, effective_verdict
from grader_service.records.verdict_lines import VERDICTS_PATH, read_verdict_line

# What an exported A320 trial is called, in its folder.
TRAJECTORY_PATH: Final = "trajectory.jsonl"
# What tells of one trial, in a folder with its frames.
TRIAL_PATH: Final = "trial.json"
_LISTINGS: Final[Mapping[str, Literal["trials", "trial"]]] = {
    "trials.json": "trials",
    TRIAL_PATH: "trial",
}


@dataclass(frozen=True, slots=True)
class Found:
    """One input: a file (`a320`: a trajectory, `log`: a log of inspect-robots) or a folder.

    The folder of a saved `record`, one with a trials.json (`trials`), or one with a trial.json
    (`trial`).
    """

    kind: Literal["a320", "record", "trials", "trial", "log"]
    path: Path


def find_inputs(
    arguments: Iterable[str], *, missing: Callable[[str], object] | None = None
) -> Iterator[Found]:
    """Return the inputs that files, folders and glob patterns name, each once, in sorted order.

    A folder is searched for saved records, trials.json, trial.json and *.jsonl files; a log must
    be named. An argument that names nothing goes to `missing`; without it that raises InputError.
    """
    seen: set[str] = set()
    for argument in arguments:
        nothing = True
        for item in _expand(argument):
            nothing = False
            key = os.path.realpath(item.path)
            if key not in seen:
                seen.add(key)
                yield item
        if nothing and missing is not None:
            missing(argument)
        elif nothing:
            raise nothing_at(argument)


def nothing_at(argument: str) -> InputError:
    """Return the error of an argument that names nothing."""
    return InputError(
        f"nothing to read at {argument}",
        fix="name a .jsonl file, a saved record's folder, a folder with trials.json or trial.json, "
        "or a log of inspect-robots",
    )


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
            elif (matched / RECORD_PATH).exists():
                yield Found("record", matched)
            else:
                for name, kind in _LISTINGS.items():
                    if (matched / name).exists():
                        yield Found(kind, matched)


def _file(path: Path) -> Found:
    if path.name == RECORD_PATH:
        return Found("record", path.parent)
    for name, kind in _LISTINGS.items():
        if path.name == name:
            return Found(kind, path.parent)
    if path.name == VERDICTS_PATH and (path.parent / MANIFEST_PATH).exists():
        # A part of an exported trial, which a pattern for trajectories finds as well.
        trajectory = path.parent / TRAJECTORY_PATH
        return Found("a320", trajectory) if trajectory.exists() else Found("record", path.parent)
    return Found("log" if path.suffix == ".json" else "a320", path)


def _in_folder(folder: Path) -> Iterator[Found]:
    for here, folders, files in os.walk(folder):
        # Hidden ones are being written, or are nobody's trials.
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        # An export that lost its record must not go unnoticed: reading it says what is missing.
        damaged = MANIFEST_PATH in files and VERDICTS_PATH in files and TRAJECTORY_PATH not in files
        if RECORD_PATH in files or damaged:
            folders.clear()
            yield Found("record", Path(here))
            continue
        for name, kind in _LISTINGS.items():
            if name in files:
                yield Found(kind, Path(here))
        for name in sorted(files):
            if name.endswith(".jsonl") and name != VERDICTS_PATH:
                yield Found("a320", Path(here) / name)


def read_bytes(path: Path) -> bytes:
    """Return a file's bytes. Raises InputError when it can't be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error


def trajectory_bytes(path: Path) -> bytes:
    """Return the bytes of an A320 trajectory.

    Raises InputError, and RecordError for an exported one that is not as it was exported.
    """
    if path.name == TRAJECTORY_PATH:
        check_manifest(path.parent)
    return read_bytes(path)


def read_trajectory(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Return the records of an A320 trajectory. Raises TrajectoryError, RecordError, InputError."""
    return parse_trajectory(trajectory_bytes(Path(path)))


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
    check_manifest(folder)

    def read(name: str) -> bytes:
        return read_bytes(folder / name)

    verdicts = folder / VERDICTS_PATH
    return SavedFolder(
        load_trial(read),
        list(_read_verdicts(read_bytes(verdicts))) if verdicts.exists() else [],
    )


def _read_verdicts(data: bytes) -> Iterator[Verdict]:
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            yield read_verdict_line(line, f"line {number} of {VERDICTS_PATH}")


def check_manifest(folder: Path) -> None:
    """Raise RecordError where the files of a folder are not those that its manifest.json lists.

    A folder without a manifest is taken as it is.
    """
    manifest = folder / MANIFEST_PATH
    if not manifest.exists():
        return
    listed = _listed_files(manifest)
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
    for name in sorted(listed.keys() | there - {MANIFEST_PATH}):
        if name not in there:
            what = "is missing"
        elif name not in listed:
            what = f"is not listed in {MANIFEST_PATH}"
        elif _sha256(folder / name) != listed[name]:
            what = f"is not what it was when {MANIFEST_PATH} was written"
        else:
            continue
        raise RecordError(f"{folder / name} {what}", fix="export the run again, to a new folder")


def _listed_files(manifest: Path) -> Mapping[str, str]:
    value = parse_strict(read_bytes(manifest), what=str(manifest))
    if not isinstance(value, dict) or value.get("schema") != MANIFEST_SCHEMA:
        raise RecordError(
            f"{manifest} does not have the schema {MANIFEST_SCHEMA}",
            fix="export the run again, or move a manifest of something else out of the folder",
        )
    files = value.get("files")
    if not isinstance(files, dict) or not all(isinstance(name, str) for name in files.values()):
        raise RecordError(f"{manifest} lists no files", fix="export the run again")
    return files


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError(
        f"{path} can't be read: {error.strerror}", fix="check the path and its permissions"
    )
