"""Writing the files of a trial."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def write_files(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write files by their relative paths to a folder, and return it.

    An archive or export names its manifest last, so that one that was cut short is noticed.
    """
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder
