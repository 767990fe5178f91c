"""The blob store: immutable bytes under their sha256, on a disk or in S3."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from obstore.exceptions import BaseError
from obstore.store import LocalStore, MemoryStore, from_url

from grader_service.errors import NotFoundError, SetupError, UnavailableError
from grader_service.records.canonical import digest
from grader_service.storage.durable_folder import DurableFolder

if TYPE_CHECKING:
    from obstore.store import ObjectStore, RetryConfig

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
# Blobs of one submission that are on their way to a remote store.
_AT_ONCE: Final = 8
# A submission waits for it, and whoever sent it tries again: minutes of retries would help nobody.
_RETRY: Final[RetryConfig] = {"max_retries": 4, "retry_timeout": timedelta(seconds=15)}


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """A blob that is there: its size in bytes, and when it was last stored (epoch seconds)."""

    sha256: str
    size: int
    modified_at: float


class BlobStore:
    """Content-addressed bytes. Thread-safe; a blob, once there, never changes."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._root: Path | None = None
        self._store = self._open(url)
        # obstore neither forces what it writes to the disk nor names it only then.
        self._folder = None if self._root is None else DurableFolder(self._root)

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
            # Endpoint, region and keys come from the AWS_… variables. No client options here: any
            # would undo AWS_ALLOW_HTTP.
            return from_url(url, retry_config=_RETRY)
        except (BaseError, ValueError) as error:
            raise SetupError(
                f"not a blob store: {url!r} ({_first_line(error)})",
                fix="set AUTOGRADER_BLOBS_URL to a folder or to s3://bucket/prefix",
            ) from error

    def put(self, data: bytes) -> str:
        """Store `data` durably and return its sha256. Storing it again does nothing.

        Raises UnavailableError when the store can't be written.
        """
        self.put_all([data])
        return digest(data)

    def put_all(self, blobs: Iterable[bytes]) -> None:
        """Store all of `blobs` as `put` does, which takes less time than one after the other."""
        files = {digest(data): data for data in blobs}
        # Over those that are there, too: what is stored anew is too young for `delete`.
        try:
            if self._folder is not None:
                self._folder.write(files)
            else:
                # At the same time: what takes long is the way to the store and back.
                with ThreadPoolExecutor(min(_AT_ONCE, len(files) or 1)) as pool:
                    list(pool.map(self._store.put, files, files.values()))
        except (BaseError, OSError) as error:
            raise UnavailableError(
                f"the blob store did not take the data: {_first_line(error)}",
                fix="see that it is there, can be reached and has space; then try again",
            ) from error

    def get(self, sha256: str) -> bytes:
        """Return a blob.

        Raises NotFoundError, or UnavailableError when the store is down or not there at all.
        """
        try:
            return bytes(self._store.get(sha256).bytes())
        except FileNotFoundError as error:
            if not self._is_gone(error):
                raise NotFoundError(f"there is no blob {sha256}") from error
            raise _unanswered(error) from error
        except (BaseError, OSError) as error:
            raise _unanswered(error) from error

    def list(self) -> Iterator[StoredBlob]:
        """Return all blobs. Raises UnavailableError."""
        try:
            for page in self._store.list(chunk_size=1000):
                for entry in page:
                    sha256 = entry["path"]
                    if _SHA256.fullmatch(sha256):
                        modified_at = entry["last_modified"].timestamp()
                        yield StoredBlob(sha256, entry["size"], modified_at)
        except (BaseError, OSError) as error:
            raise _unanswered(error) from error

    def delete(self, sha256: str, *, older_than: float) -> bool:
        """Delete a blob that was last stored before `older_than`.

        False when it was not, or is gone. Raises UnavailableError.
        """
        try:
            if self._folder is not None:
                return self._folder.delete(sha256, older_than=older_than)
            if self._store.head(sha256)["last_modified"].timestamp() >= older_than:
                return False
            self._store.delete(sha256)
        except FileNotFoundError:
            return False
        except (BaseError, OSError) as error:
            raise _unanswered(error) from error
        return True

    def _is_gone(self, error: FileNotFoundError) -> bool:
        """Tell a bucket or folder that is not there from a blob that is not in it."""
        if self._root is not None:
            return not self._root.is_dir()
        return "<Code>NoSuchBucket</Code>" in str(error)


def _unanswered(error: Exception) -> UnavailableError:
    return UnavailableError(
        f"the blob store did not answer: {_first_line(error)}",
        fix="see that it is there and can be reached; then try again",
    )


def _first_line(error: Exception) -> str:
    """Return what an error of obstore says, without the dump of its source that follows."""
    return str(error).partition("\n")[0]
