"""Prune: delete what is older than anybody wants to keep it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from grader_service.grading.service import Service
from grader_service.storage import retention
from grader_service.storage.retention import Rows

# A submission stores its blobs first and its trial last; no submission takes so long. Storing a
# blob that is there makes it as young as a new one.
GRACE_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was deleted, or would have been."""

    rows: Rows
    blobs: int
    bytes: int


def prune(
    service: Service, *, older_than_s: float, run: str | None = None, dry_run: bool = False
) -> Pruned:
    """Delete trials to which nothing has happened for so long, then blobs that none needs any more.

    Trials that wait or are in work stay. Safe while the service runs; what a prune that was stopped
    half-way left over, the next one deletes.
    """
    rows, gone = _prune_trials(service, older_than_s, run, dry_run=dry_run)
    needed = set(retention.needed_blobs(service.database, without=gone if dry_run else ()))
    cut = time.time() - GRACE_S
    blobs = size = 0
    for blob in service.blobs.list():
        if blob.sha256 in needed or blob.modified_at >= cut:
            continue
        if dry_run or service.blobs.delete(blob.sha256, older_than=cut):
            blobs += 1
            size += blob.size
    return Pruned(rows, blobs, size)


def _prune_trials(
    service: Service, older_than_s: float, run: str | None, *, dry_run: bool
) -> tuple[Rows, set[str]]:
    rows, gone, after = Rows(), set[str](), ""
    while True:
        with service.database.write() as unit:
            found = retention.ended_before(
                unit, tenant=service.tenant, age_s=older_than_s, run=run, after=after
            )
            if not found:
                return rows, gone
            rows += (retention.count if dry_run else retention.delete_trials)(unit, found)
        gone.update(found)
        after = found[-1]
