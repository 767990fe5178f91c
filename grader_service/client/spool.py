"""The spool: submissions on the rig's disk until the service has them.

    <spool>/<service's URL, quoted>/<time>-<client id>.zip            waits to be sent
    <spool>/<service's URL, quoted>/rejected/<time>-<client id>.zip   refused for good
    <spool>/<service's URL, quoted>/rejected/<time>-<client id>.txt   why

A file holds `trial.json` and the other parts of the submission as `parts/<name>`. It gets its name
once it is whole and on the disk. Several processes may share a spool: whoever sends an entry locks
it, and a lock ends with its process. Where there are no locks an entry may be sent twice, which
does no harm: the service knows its client id.
"""

from __future__ import annotations

import json
import os
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol
from urllib.parse import quote, unquote

from grader_service.errors import AutograderError, RecordError, UnavailableError

try:
    import fcntl
except ImportError:  # no POSIX
    fcntl = None  # type: ignore[assignment]

_TRIAL: Final = "trial.json"
_PART: Final = "parts/"
_REJECTED: Final = "rejected"
# What entries are called: a spool may lie among files of others.
_NAME: Final = "[0-9]" * 20 + "-*"
# A process that still writes is done long before; what is left then is of one that died.
_ABANDONED_S: Final = 3600.0


class Submits(Protocol):
    """What sending needs of a client."""

    def submit(self, trial: Mapping[str, Any], parts: Mapping[str, bytes]) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Entry:
    """One submission on disk, and the service that it is for."""

    path: Path
    url: str

    @property
    def client_id(self) -> str:
        return self.path.stem.partition("-")[2]

    @property
    def problem(self) -> str | None:
        """Why the service refused it; None for one that was not refused."""
        try:
            return self.path.with_suffix(".txt").read_text(encoding="utf-8").strip()
        except OSError:
            return None

    def read(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Return the JSON of the part `trial` and the other parts. Raises RecordError, OSError."""
        try:
            with zipfile.ZipFile(self.path) as file:
                trial = dict(json.loads(file.read(_TRIAL)))
                names = [name for name in file.namelist() if name.startswith(_PART)]
                parts = {name.removeprefix(_PART): file.read(name) for name in names}
        except (ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise RecordError(
                f"{self.path.name} is damaged: {error}", fix="delete it; the trial is lost"
            ) from error
        return trial, parts


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of sending an entry: `answer` is the service's, `problem` says why it refused.

    `busy`: another process holds it; `gone`: another process has sent it.
    """

    kind: Literal["sent", "refused", "busy", "gone"]
    answer: Mapping[str, Any] | None = None
    problem: str | None = None


def default_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where the spool is unless an option says otherwise."""
    own = environ.get("AUTOGRADER_SPOOL")
    if own:
        return Path(own).expanduser()
    state = environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "autograder" / "spool"


class Spool:
    """The submissions in one folder. Thread-safe, and safe among processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, url: str, trial: Mapping[str, Any], parts: Mapping[str, bytes]) -> Entry:
        """Write a submission; it is on the disk when this returns. Raises OSError."""
        folder = self.folder / quote(url, safe="")
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        name = f"{time.time_ns():020d}-{trial['client_id']}"
        unfinished, path = folder / f"{name}.tmp", folder / f"{name}.zip"
        try:
            with unfinished.open("wb") as file:
                with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as packed:
                    # Without the time: a rig's clock may stand in 1970, before any zip file.
                    packed.writestr(zipfile.ZipInfo(_TRIAL), json.dumps(trial))
                    for part, data in parts.items():
                        packed.writestr(zipfile.ZipInfo(_PART + part), data)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
            _sync(folder)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        return Entry(path, url)

    def waiting(self, url: str | None = None) -> list[Entry]:
        """Return what waits to be sent, for one service or for all, oldest first."""
        found = [
            Entry(path, service)
            for service, folder in self._services(url)
            for path in folder.glob(f"{_NAME}.zip")
        ]
        return sorted(found, key=lambda entry: entry.path.name)

    def rejected(self) -> list[Entry]:
        """Return what a service refused for good, oldest first."""
        found = [
            Entry(path, service)
            for service, folder in self._services(None)
            for path in (folder / _REJECTED).glob(f"{_NAME}.zip")
        ]
        return sorted(found, key=lambda entry: entry.path.name)

    def clean(self) -> None:
        """Delete what processes left that died while they wrote."""
        for _, folder in self._services(None):
            for path in folder.glob(f"{_NAME}.tmp"):
                try:
                    if time.time() - path.stat().st_mtime > _ABANDONED_S:
                        path.unlink()
                except OSError:  # its owner was quicker
                    continue

    def send(self, entry: Entry, client: Submits, **changes: Any) -> Outcome:
        """Submit an entry, with `changes` to its trial, then delete or reject it.

        Raises UnavailableError when the service can't take it now, OSError when the disk fails: it
        stays as it is then.
        """
        with _claimed(entry.path) as claim:
            if claim != "held":
                return Outcome(claim)
            try:
                trial, parts = entry.read()
                answer = client.submit(trial | changes, parts)
            except UnavailableError:
                raise
            except AutograderError as error:
                self._reject(entry, str(error))
                return Outcome("refused", problem=error.message)
            entry.path.unlink(missing_ok=True)
            entry.path.with_suffix(".txt").unlink(missing_ok=True)
        return Outcome("sent", answer)

    def _reject(self, entry: Entry, problem: str) -> None:
        folder = self.folder / quote(entry.url, safe="") / _REJECTED
        folder.mkdir(exist_ok=True)
        path = folder / entry.path.name
        path.with_suffix(".txt").write_text(problem + "\n", encoding="utf-8")
        entry.path.replace(path)

    def _services(self, url: str | None) -> Iterator[tuple[str, Path]]:
        if url is not None:
            yield url, self.folder / quote(url, safe="")
        elif self.folder.is_dir():
            for folder in self.folder.iterdir():
                if folder.is_dir():
                    yield unquote(folder.name), folder


@contextmanager
def _claimed(path: Path) -> Iterator[Literal["held", "busy", "gone"]]:
    try:
        file = path.open("rb")
    except FileNotFoundError:
        yield "gone"
        return
    with file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield "busy"
                return
        # Another process may have sent it between our opening and our locking it.
        yield "held" if path.exists() else "gone"


def _sync(folder: Path) -> None:
    """Put a folder's names on the disk, where that can be asked for."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
