"""Files that are on the disk, whole and under their names, once they are written."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path


class DurableFolder:
    """A flat folder of files. Thread-safe, and safe beside other processes.

    Flat, since a name is on the disk only when its folder is synced, and one sync serves all.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        # Where no other process begins.
        self._numbers = itertools.count(secrets.randbelow(2**62))
        # It may just have been made.
        descriptor = os.open(root.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def write(self, files: Mapping[str, bytes]) -> None:
        """Write all `files` (name: bytes), or replace them. Raises OSError.

        A file gets its name when its bytes are on the disk, so that no crash leaves a name with
        less. The bytes of all files are handed over before the first is waited for: most of them
        then go to the disk together.
        """
        drafts: dict[Path, Path] = {}
        with contextlib.ExitStack() as opened:
            try:
                descriptors = []
                for name, data in files.items():
                    # Ends as the drafts of obstore do, which it never lists.
                    draft = self._root / f"{name}#{next(self._numbers)}"
                    drafts[self._root / name] = draft
                    file = opened.enter_context(draft.open("xb"))
                    file.write(data)
                    file.flush()
                    descriptors.append(file.fileno())
                for descriptor in descriptors:
                    os.fsync(descriptor)
                with self._lock() as folder:
                    for path, draft in drafts.items():
                        draft.replace(path)
                    os.fsync(folder)
            except BaseException:
                for draft in drafts.values():
                    draft.unlink(missing_ok=True)
                raise

    def delete(self, name: str, *, older_than: float) -> bool:
        """Delete a file that was last written before `older_than` (epoch seconds).

        False when it was not. Raises FileNotFoundError when it is not there, OSError.
        """
        path = self._root / name
        # Nobody may write it anew between the look and the deletion.
        with self._lock(alone=True):
            if path.stat().st_mtime >= older_than:
                return False
            path.unlink()
        return True

    @contextlib.contextmanager
    def _lock(self, *, alone: bool = False) -> Iterator[int]:
        """Hold the folder, against other processes too; give its descriptor."""
        descriptor = os.open(self._root, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            yield descriptor
        finally:
            os.close(descriptor)
