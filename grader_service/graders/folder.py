"""Trials in folders, as an export has them, and verdicts added to them.

record.json, columns/, frames/     a robot trial; or
trajectory.jsonl                   a cockpit run, its effective verdict as the last record
verdicts.jsonl                     one verdict on each line, appended, never changed
manifest.json                      what all of this consists of
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from grader_service.client.disk import TRAJECTORY_PATH, check_manifest, read_bytes
from grader_service.errors import InputError, RecordError
from grader_service.graders.trial import Trial, robot_trial
from grader_service.judging.stored_receipt import read_receipt
from grader_service.records.canonical import canonical_bytes, digest, digest_of
from grader_service.records.judged import judged_trajectory
from grader_service.records.manifest import MANIFEST_PATH, build_manifest, submitted_trajectory
from grader_service.records.saved import RECORD_PATH
from grader_service.records.strict_json import parse_strict
from grader_service.records.trajectory import parse_trajectory
from grader_service.records.verdict import Verdict, effective_verdict
from grader_service.records.verdict_lines import VERDICTS_PATH, read_verdict_line, verdict_line

_TRIAL_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UNSAFE: Final = re.compile(r"[^\w.-]")


@dataclass
class TrialFolder:
    """One trial on disk. `own_rubric` is what whoever made the trial wants it judged by."""

    path: Path
    own_rubric: Any = None

    @classmethod
    def create(
        cls, path: Path, files: Mapping[str, bytes], *, own_rubric: Any = None
    ) -> TrialFolder:
        """Write a trial without a verdict, where there is none yet. Raises InputError."""
        folder = cls(path, own_rubric)
        if not is_trial_folder(path):
            # The record last: it is what makes this the folder of a trial.
            files = dict(sorted(files.items(), key=lambda file: file[0] == RECORD_PATH))
            files = {VERDICTS_PATH: b"", **files}
            manifest = build_manifest(
                files, newest_receipt=None, trajectory=files.get(TRAJECTORY_PATH)
            )
            folder._write({**files, MANIFEST_PATH: canonical_bytes(manifest)})
        return folder

    def load(self) -> Trial:
        """Return the trial. Raises RecordError, TrajectoryError or InputError."""
        check_manifest(self.path)
        verdicts = self._verdicts()
        if (self.path / TRAJECTORY_PATH).exists():
            submitted = self._submitted()
            return Trial(
                id=self._id(verdicts),
                kind="a320",
                record=parse_trajectory(submitted),
                record_digest=digest(submitted),
                own_rubric=self.own_rubric,
                verdicts=verdicts,
                folder=self.path,
            )
        return robot_trial(
            self._read,
            self._names(),
            id=self._id(verdicts),
            own_rubric=self.own_rubric,
            verdicts=verdicts,
            folder=self.path,
        )

    def add(self, verdict: Verdict) -> None:
        """Append a verdict to a trial that was loaded. Raises InputError.

        Replaced, each in one step, are verdicts.jsonl, a trajectory, and the manifest.
        """
        verdicts = [*self._verdicts(), verdict]
        lines = self._read(VERDICTS_PATH) if (self.path / VERDICTS_PATH).exists() else b""
        changed = {VERDICTS_PATH: lines + verdict_line(verdict)}
        submitted = None
        if (self.path / TRAJECTORY_PATH).exists():
            submitted = self._submitted()
            changed[TRAJECTORY_PATH] = judged_trajectory(submitted, effective_verdict(verdicts))
        receipts = [one.receipt for one in verdicts if one.receipt is not None]
        manifest = build_manifest(
            changed,
            newest_receipt=digest_of(receipts[-1]) if receipts else None,
            trajectory=submitted,
        )
        # What the old manifest lists was compared when the trial was loaded.
        before = self._manifest().get("files") or {
            name: digest(self._read(name)) for name in self._names()
        }
        manifest["files"] = {**before, **manifest["files"]}
        with _undisturbed():
            self._write(changed | {MANIFEST_PATH: canonical_bytes(manifest)})

    def _read(self, name: str) -> bytes:
        return read_bytes(self.path / name)

    def _verdicts(self) -> list[Verdict]:
        path = self.path / VERDICTS_PATH
        lines = read_bytes(path).split(b"\n") if path.exists() else []
        verdicts = [
            read_verdict_line(line, f"line {number} of {path}")
            for number, line in enumerate(lines, start=1)
            if line.strip()
        ]
        for verdict in verdicts:
            if verdict.receipt is not None:
                read_receipt(verdict.receipt)
        return verdicts

    def _id(self, verdicts: list[Verdict]) -> str:
        if _TRIAL_ID.fullmatch(self.path.name):
            return self.path.name
        of_receipts = (str(one.receipt["trial"]) for one in verdicts if one.receipt is not None)
        return next(of_receipts, str(uuid4()))

    def _submitted(self) -> bytes:
        """Return the trajectory as it was before any verdict."""
        how = self._manifest().get("as_submitted")
        submitted = submitted_trajectory(self._read(TRAJECTORY_PATH), how)
        if submitted is None:
            raise RecordError(
                f"{self.path / MANIFEST_PATH} does not say how to take the judgement off",
                fix="export the run again",
            )
        return submitted

    def _manifest(self) -> Mapping[str, Any]:
        path = self.path / MANIFEST_PATH
        value = parse_strict(read_bytes(path), what=str(path)) if path.exists() else {}
        return value if isinstance(value, dict) else {}

    def _names(self) -> list[str]:
        paths = (path for path in self.path.rglob("*") if path.is_file())
        return [path.relative_to(self.path).as_posix() for path in paths]

    def _write(self, files: Mapping[str, bytes]) -> None:
        # Beside the folder: whatever lies in it has to be in the manifest.
        draft = self.path.with_name(f".{self.path.name}.draft")
        try:
            for name, data in files.items():
                path = self.path / name
                path.parent.mkdir(parents=True, exist_ok=True)
                with draft.open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                draft.replace(path)
        except OSError as error:
            raise InputError(
                f"{self.path} can't be written: {error.strerror}",
                fix="check the permissions and the space there",
            ) from error


def is_trial_folder(path: Path) -> bool:
    """Say whether a folder holds a trial that verdicts can be added to."""
    return (path / RECORD_PATH).exists() or (
        (path / TRAJECTORY_PATH).exists() and (path / MANIFEST_PATH).exists()
    )


def folder_name(name: str, content: str) -> str:
    """Return what a new trial's folder is called: its name, and the start of a digest."""
    # Names of files are short in bytes, not in characters.
    short = _UNSAFE.sub("_", name).encode()[:100].decode(errors="ignore")
    return f"{short}-{content[:8]}"


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Hold back Ctrl-C: between two files of a folder it would leave a manifest that lies."""
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
