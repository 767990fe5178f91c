"""Exported trials on disk: the folders that `autograder export` wrote."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from grader_service.errors import InputError
from grader_service.judging.verify import MARKS_OF_A_TRIAL

_FIX: Final = "name a folder that `autograder export RUN -o DIR` wrote, or one of its trials"


def trial_folders(paths: Iterable[str]) -> list[Path]:
    """Return the trial folders that the paths are or hold, each once. Raises InputError for none.

    A folder that lost all but one of the files that mark a trial is one still.
    """
    found: dict[str, Path] = {}
    for path in paths:
        if not Path(path).is_dir():
            raise InputError(f"there is no folder {path}", fix=_FIX)
        for here, folders, files in os.walk(path):
            folders.sort()
            if not MARKS_OF_A_TRIAL.isdisjoint(files):
                folders.clear()
                found.setdefault(os.path.realpath(here), Path(here))
    if not found:
        raise InputError("there is no exported trial in what you named", fix=_FIX)
    return list(found.values())


def read_files(folder: Path) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return a trial's files by relative path, and why others can't be read."""
    files: dict[str, bytes] = {}
    unreadable: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_dir():
            name = path.relative_to(folder).as_posix()
            try:
                files[name] = path.read_bytes()
            except OSError as error:
                unreadable[name] = error.strerror or str(error)
    return files, unreadable
