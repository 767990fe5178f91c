"""Writing the files of a trial."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from grader_service.errors import ConflictError
from grader_service.records.verdict_lines import VERDICTS_PATH


def write_files(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write files by their relative paths to a folder, and return it.

    An archive or export names its manifest last, so that one that was cut short is noticed. Raises
    ConflictError where the folder has verdicts that would be lost: `autograder grade` adds them.
    """
    there = folder / VERDICTS_PATH
    if VERDICTS_PATH in files and there.exists():
        lost = {*there.read_bytes().splitlines()} - {*files[VERDICTS_PATH].splitlines()}
        if lost:
            raise ConflictError(
                f"{folder} has verdicts that the service does not have: {len(lost)}",
                fix="name another folder",
            )
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder
