"""Export: a trial as files that score, verify and anyone else can read without the service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from grader_service.errors import NotFoundError
from grader_service.grading.service import Service
from grader_service.records.canonical import canonical_bytes, digest_of
from grader_service.records.judged import judged_trajectory
from grader_service.records.manifest import MANIFEST_PATH, build_manifest
from grader_service.records.verdict import Verdict, effective_verdict
from grader_service.records.verdict_lines import VERDICTS_PATH, verdict_line
from grader_service.storage import trials, verdicts

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
    after: str | None = None
    while True:
        with service.database.read() as unit:
            rows = trials.page(unit, tenant=service.tenant, limit=100, after=after, run=run)
            stored = {row.id: verdicts.of_trial(unit, row.id) for row in rows}
        if not rows and after is None:
            raise NotFoundError(f"there is no run {run!r}", fix="GET /v1/runs lists the runs")
        for row in rows:
            yield row.id, _files(service, row, stored[row.id])
        if not rows:
            return
        after = rows[-1].id


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
