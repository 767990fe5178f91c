"""Verify exported trials offline: files, receipts, and that the stored replies decide alike.

The aim is corruption and mistakes, not a forger. Not recomputed: the sha256 of a frame as it was
sent, since it depends on the Pillow that encoded it, and nonces and tokens, which only the
service's secret gives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

from grader_service.errors import AutograderError, RecordError
from grader_service.judging.stored_receipt import (
    SeenFrame,
    StoredReceipt,
    Words,
    answer_digest,
    changes,
    decide_again,
    read_receipt,
)
from grader_service.records.canonical import canonical_bytes, digest, digest_of
from grader_service.records.judged import definitive_verdict, judged_trajectory
from grader_service.records.manifest import MANIFEST_PATH, build_manifest, submitted_trajectory
from grader_service.records.saved import RECORD_PATH, SavedTrial, load_trial, parse_record_json
from grader_service.records.strict_json import strict_loads
from grader_service.records.verdict import UNGRADED_REASONS, Verdict, effective_verdict
from grader_service.records.verdict_lines import VERDICTS_PATH, read_verdict_line

TRAJECTORY_PATH: Final = "trajectory.jsonl"
# Each of them shows that a folder holds an exported trial.
MARKS_OF_A_TRIAL: Final = frozenset({MANIFEST_PATH, RECORD_PATH, TRAJECTORY_PATH, VERDICTS_PATH})

NOT_RECOMPUTED: Final = "frames[].sha256_sent, which depends on the Pillow that encoded them"

_TRIAL_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Verdicts of these sources come without a receipt: a person's, and the end of lost workers.
_WITHOUT_RECEIPT: Final = frozenset({"human", "service"})


_NOTHING_TO_JUDGE: Final = Words(outcome="abstained", verdict="abstain", reason="nothing_to_judge")


class Difference(NamedTuple):
    """What is not as it should be, in which file of an export."""

    path: str
    what: str
    expected: Any
    found: Any

    def plain(self) -> dict[str, Any]:
        """Return it as JSON that any terminal or file takes, whatever bytes led to it."""
        value: dict[str, Any] = json.loads(canonical_bytes(self._asdict()))
        return value


@dataclass
class Verifier:
    """Verifies trials one by one, and after the last what receipts took over from each other."""

    trials: int = 0
    receipts: int = 0
    differences: list[Difference] = field(default_factory=list)
    # By the digest of a receipt.
    _answers: dict[str, str] = field(default_factory=dict)
    _reused: list[tuple[str, str, str]] = field(default_factory=list)

    def add(self, folder: str, files: Mapping[str, bytes]) -> None:
        """Verify the files of a trial, by their paths relative to `folder`."""
        check = _Check(files)
        name = PurePosixPath(folder).name
        check.run(trial=name if _TRIAL_ID.fullmatch(name) else None)
        self.trials += 1
        self.differences += [
            difference._replace(path=f"{folder}/{difference.path}") for difference in check.found
        ]
        for where, receipt in check.receipts:
            self.receipts += 1
            answer = answer_digest(receipt.raw)
            self._answers[digest_of(receipt.raw)] = answer
            if receipt.reused_from is not None:
                self._reused.append((f"{folder}/{where}", receipt.reused_from, answer))

    def finish(self) -> Sequence[Difference]:
        """Compare each receipt that was reused with its source, where that was verified as well."""
        for where, source, answer in self._reused:
            expected = self._answers.get(source, answer)
            if answer != expected:
                self.differences.append(
                    Difference(where, "the answer taken over", expected, answer)
                )
        return self.differences


class _Check:
    """One trial."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = files
        self.found: list[Difference] = []
        self.receipts: list[tuple[str, StoredReceipt]] = []

    def same(self, path: str, what: str, expected: Any, found: Any) -> None:
        if expected != found:
            self.found.append(Difference(path, what, expected, found))

    def run(self, *, trial: str | None) -> None:
        """Check everything; `trial` is the id that the folder is named by, if it is."""
        lines = list(self._verdicts())
        manifest = self._manifest()
        saved = submitted = None
        if TRAJECTORY_PATH in self.files:
            submitted = self._trajectory(manifest, [verdict for _, verdict in lines])
        else:
            saved = self._record()
        raw = [verdict.receipt for _, verdict in lines if verdict.receipt is not None]
        self._compare_manifest(manifest, raw, submitted)
        record_digest = None if submitted is None else digest(submitted)
        if saved is not None:
            record_digest = saved.digest
        self._receipts(lines, record_digest, saved, trial)
        self._came_with_record(lines, saved)

    # --- files ----------------------------------------------------------------------------------

    def _verdicts(self) -> Iterator[tuple[str, Verdict]]:
        """Yield the verdicts and where they stand."""
        for number, line in enumerate(self.files.get(VERDICTS_PATH, b"").split(b"\n"), start=1):
            if not line:
                continue
            where = f"{VERDICTS_PATH}:{number}"
            try:
                yield where, read_verdict_line(line, where)
            except RecordError as error:
                self.same(where, "the verdict", "a verdict as it was exported", error.message)

    def _manifest(self) -> Mapping[str, Any]:
        data = self.files.get(MANIFEST_PATH)
        try:
            manifest = None if data is None else strict_loads(data)
        except ValueError as error:
            manifest = str(error)
        if isinstance(manifest, dict):
            return manifest
        self.same(MANIFEST_PATH, "the manifest", "a JSON object", manifest)
        return {}

    def _compare_manifest(
        self,
        manifest: Mapping[str, Any],
        receipts: Sequence[Mapping[str, Any]],
        submitted: bytes | None,
    ) -> None:
        """Compare the manifest with the one that these files would get."""
        expected = build_manifest(
            {name: data for name, data in self.files.items() if name != MANIFEST_PATH},
            newest_receipt=digest_of(receipts[-1]) if receipts else None,
            trajectory=submitted,
        )
        listed, there = manifest.get("files"), expected.pop("files")
        listed = listed if isinstance(listed, dict) else {}
        for name in sorted(listed.keys() | there.keys()):
            self.same(name, "sha256 by the manifest", listed.get(name), there.get(name))
        for key, value in expected.items():
            self.same(MANIFEST_PATH, key, manifest.get(key), value)
        if not self.found:
            whole = canonical_bytes(expected | {"files": there})
            self.same(
                MANIFEST_PATH,
                "its bytes",
                digest(whole),
                digest(self.files.get(MANIFEST_PATH, b"")),
            )

    def _trajectory(self, manifest: Mapping[str, Any], verdicts: list[Verdict]) -> bytes | None:
        """Return the trajectory as it was submitted, if the manifest tells."""
        exported = self.files[TRAJECTORY_PATH]
        how = manifest.get("as_submitted")
        submitted = submitted_trajectory(exported, how)
        if submitted is None:
            self.same(MANIFEST_PATH, "as_submitted", "how to take the judgement off", how)
            return None
        judged = judged_trajectory(submitted, effective_verdict(verdicts))
        what = "the judgement record of the effective verdict"
        self.same(TRAJECTORY_PATH, what, _end(judged), _end(exported))
        self.same(TRAJECTORY_PATH, "size", len(judged), len(exported))
        return submitted

    def _record(self) -> SavedTrial | None:
        """Return the record of a robot trial, if it can be read whole; check what it names."""
        try:
            saved = load_trial(self.files.__getitem__, check=True)
            head = parse_record_json(self.files[RECORD_PATH])
        except RecordError as error:
            self.same(RECORD_PATH, "the record", "a trial-record/1 and its columns", error.message)
            return None
        self._named_by_digest("columns", set(head.columns))
        self._named_by_digest("frames", {ref.sha256 for ref in head.frames})
        return saved

    def _named_by_digest(self, folder: str, listed: set[str]) -> None:
        """Check that a folder holds exactly the files of these sha256, each named by its own."""
        there = {
            path.stem: str(path)
            for path in map(PurePosixPath, self.files)
            if str(path.parent) == folder
        }
        for sha256 in sorted(listed | there.keys()):
            path = there.get(sha256, f"{folder}/{sha256}")
            held = digest(self.files[path]) if path in self.files else None
            self.same(path, "sha256 by record.json", sha256 if sha256 in listed else None, held)

    # --- verdicts and receipts ------------------------------------------------------------------

    def _receipts(
        self,
        lines: Sequence[tuple[str, Verdict]],
        record_digest: str | None,
        saved: SavedTrial | None,
        trial: str | None,
    ) -> None:
        previous = None
        for where, verdict in lines:
            raw = verdict.receipt
            if raw is None:
                continue
            self.same(where, "previous_receipt", previous, raw.get("previous_receipt"))
            previous = digest_of(raw)
            try:
                receipt = read_receipt(raw)
            except RecordError as error:
                self.same(where, "the receipt", "a receipt/1", error.message)
                continue
            self.receipts.append((where, receipt))
            trial = trial or receipt.trial
            self.same(where, "trial", trial, receipt.trial)
            if record_digest is not None:
                self.same(where, "record_digest", record_digest, receipt.record_digest)
            self.same(where, "rubric.digest", digest_of(receipt.rubric.text), receipt.rubric.digest)
            self.same(where, "the verdict", receipt.outcome.model_dump(), _words(verdict))
            if saved is not None:
                self._seen(where, receipt.frames, saved)
            self._decided(where, receipt)

    def _seen(self, where: str, frames: Sequence[SeenFrame], saved: SavedTrial) -> None:
        """Check that the frames that a judge saw are those of the record, and are here."""
        listed = {(ref.camera, ref.phase): ref.sha256 for ref in saved.frames}
        for frame in frames:
            what = f"the {frame.phase} frame of camera {frame.camera!r}"
            expected = listed.get((frame.camera, frame.phase))
            self.same(where, f"{what}, by record.json", expected, frame.sha256_received)
            if frame.sha256_received not in self._frames_held:
                self.same(where, f"{what}, as received", frame.sha256_received, None)

    @cached_property
    def _frames_held(self) -> frozenset[str]:
        return frozenset(
            digest(data) for path, data in self.files.items() if path.startswith("frames/")
        )

    def _decided(self, where: str, receipt: StoredReceipt) -> None:
        """Check that the outcome is what the reply comes to, or what the lack of one allows."""
        try:
            decision = decide_again(receipt)
            for change in changes(receipt):
                self.same(where, change.what, change.now, change.stored)
        except AutograderError as error:
            self.same(where, "rubric.text", "a rubric", error.message)
            return
        if receipt.reply is not None and None in (receipt.nonce, receipt.token):
            self.same(where, "nonce and token", "those that were asked with", None)
        unusable = decision is None or receipt.error is not None
        if unusable and not _fits_no_reply(receipt):
            self.same(
                where,
                "an outcome without a usable reply",
                "ungraded with a reason and an error",
                receipt.outcome.model_dump(),
            )

    def _came_with_record(
        self, lines: Sequence[tuple[str, Verdict]], saved: SavedTrial | None
    ) -> None:
        """Check verdicts that were adopted: the record says so itself."""
        own = None if saved is None else definitive_verdict(saved.record)
        for where, verdict in lines:
            if verdict.receipt is None and verdict.source not in _WITHOUT_RECEIPT:
                self.same(
                    where, "the verdict of the record", own, (verdict.source, verdict.verdict)
                )


def _fits_no_reply(receipt: StoredReceipt) -> bool:
    """Say whether a receipt names what kept its judge from a usable reply."""
    words = receipt.outcome
    if not receipt.error:
        return False
    if words.outcome == "ungraded":
        return words.verdict is None and words.reason in UNGRADED_REASONS
    return receipt.reply is None and words == _NOTHING_TO_JUDGE


def _words(verdict: Verdict) -> dict[str, Any]:
    return {"outcome": verdict.outcome, "verdict": verdict.verdict, "reason": verdict.reason}


def _end(trajectory: bytes) -> str:
    """Return the last line, which is all that a verdict adds."""
    return trajectory.rstrip(b"\n").rpartition(b"\n")[2].decode("utf-8", "replace")
