"""Export: a trial as files that score, verify and anyone else can read without the service."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from typing import Any, Final

from grader_service.grading.read import trial_with_verdicts, trials_of_run
from grader_service.grading.service import Service
from grader_service.records.canonical import canonical_bytes, digest_of
from grader_service.records.judged import judged_trajectory
from grader_service.records.manifest import MANIFEST_PATH, build_manifest
from grader_service.records.verdict import Verdict, effective_verdict
from grader_service.records.verdict_lines import VERDICTS_PATH, verdict_line

_SUFFIXES: Final = {
    "image/jpeg": "jpg",
    "image/png": "png",
    "image/webp": "webp",
    "image/gif": "gif",
    "image/bmp": "bmp",
    "image/tiff": "tiff",
    "image/avif": "avif",
}


def export_run(service: Service, run: str) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Return each trial of a run as (folder name, {relative path: bytes}).

    A robot trial: record.json as submitted, columns/, frames/, verdicts.jsonl (the effective
    verdict follows from it), manifest.json with the sha256 of every file and of the newest
    receipt. An A320 one: trajectory.jsonl with its judgement, verdicts.jsonl, manifest.json.
    Raises NotFoundError for a run without trials.
    """
    for row, stored in trials_of_run(service, run):
        yield row.id, _files(service, row, stored)


def export_trial(service: Service, trial_id: str) -> dict[str, bytes]:
    """Return the files of one trial by relative path, as `export_run` does."""
    row, stored = trial_with_verdicts(service, trial_id)
    return _files(service, row, stored)


def _files(service: Service, row: Any, stored: list[Verdict]) -> dict[str, bytes]:
    record = service.blobs.get(row.record_digest)
    receipts = [verdict.receipt for verdict in stored if verdict.receipt is not None]
    newest = digest_of(receipts[-1]) if receipts else None
    files = {VERDICTS_PATH: b"".join(map(verdict_line, stored))}
    if row.kind == "a320":
        files["trajectory.jsonl"] = judged_trajectory(record, effective_verdict(stored))
        manifest = build_manifest(files, newest_receipt=newest, trajectory=record)
    else:
        files["record.json"] = record
        for sha256 in row.columns:
            files[f"columns/{sha256}.npy"] = service.blobs.get(sha256)
        for frame in row.frames:
            suffix = _SUFFIXES.get(frame["media_type"], "npy")
            files[f"frames/{frame['sha256']}.{suffix}"] = service.blobs.get(frame["sha256"])
        manifest = build_manifest(files, newest_receipt=newest)
    return files | {MANIFEST_PATH: canonical_bytes(manifest)}


def archive(files: Mapping[str, bytes]) -> Iterator[bytes]:
    """Return files as the chunks of a tar archive, the same for the same files."""
    for name, data in files.items():
        info = tarfile.TarInfo(name)
        info.size = len(data)
        yield info.tobuf()
        yield data
        # Each file fills its last block; two empty blocks are the end.
        yield bytes(-len(data) % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)
