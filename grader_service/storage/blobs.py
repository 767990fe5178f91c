"""The blob store: immutable bytes under their sha256, on a disk or in S3."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, MemoryStore, from_url

from grader_service.errors import NotFoundError, SetupError, UnavailableError
from grader_service.records.canonical import digest

if TYPE_CHECKING:
    from obstore.store import ObjectStore


class BlobStore:
    """Content-addressed bytes. Thread-safe; a blob, once there, never changes."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._root: Path | None = None
        self._store = self._open(url)

    def _open(self, url: str) -> ObjectStore:
        if url.startswith("memory:"):
            return MemoryStore()
        if "://" not in url or url.startswith("file://"):
            self._root = Path(url.removeprefix("file://")).absolute()
            try:
                self._root.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise SetupError(
                    f"can't make the blob folder {self._root}: {error.strerror}",
                    fix="set AUTOGRADER_BLOBS_URL to a folder that can be written",
                ) from error
            return LocalStore(self._root)
        try:
            return from_url(url)
        except (BaseError, ValueError) as error:
            raise SetupError(
                f"not a blob store: {url!r} ({error})",
                fix="set AUTOGRADER_BLOBS_URL to a folder or to s3://bucket/prefix",
            ) from error

    def put(self, data: bytes) -> str:
        """Store `data` durably and return its sha256. Storing it again does nothing.

        Raises UnavailableError when the store can't be written.
        """
        sha256 = digest(data)
        key = _key(sha256)
        try:
            with contextlib.suppress(AlreadyExistsError):
                self._store.put(key, data, mode="create")
            if self._root is not None:
                # Also when it was there: whoever put it may not have got as far as this line.
                _fsync(self._root / key)
        except (BaseError, OSError) as error:
            raise UnavailableError(
                f"the blob store did not take the data: {error}",
                fix="see that it can be reached and has space; then try again",
            ) from error
        return sha256

    def get(self, sha256: str) -> bytes:
        """Return a blob. Raises NotFoundError, or UnavailableError when the store is down."""
        try:
            return bytes(self._store.get(_key(sha256)).bytes())
        except FileNotFoundError as error:
            raise NotFoundError(f"there is no blob {sha256}") from error
        except (BaseError, OSError) as error:
            raise UnavailableError(
                f"the blob store did not answer: {error}",
                fix="see that it can be reached; then try again",
            ) from error


def _key(sha256: str) -> str:
    return f"{sha256[:2]}/{sha256[2:]}"


def _fsync(path: Path) -> None:
    """Force a file and its name to the disk: the store itself does neither."""
    for target in (path, path.parent, path.parent.parent):
        descriptor = os.open(target, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
