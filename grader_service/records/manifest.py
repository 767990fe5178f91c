"""manifest.json: what an exported trial consists of, so that no lost or changed byte is missed.

    {"schema": "manifest/1",
     "files": {relative path: sha256},     every file of the folder but the manifest itself
     "newest_receipt": sha256 | null,      digest of the newest receipt in verdicts.jsonl
     "as_submitted": {...} | null}         how to take the judgement off an A320 trajectory again

A trajectory is exported with its verdict as one more record, before which a last line that was cut
off has to go. Receipts name the digest of the trajectory as it was submitted: its first `bytes`
bytes are those of the exported one, and `tail` (hexadecimal) holds what had to go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from grader_service.records.canonical import digest
from grader_service.records.trajectory import whole_lines

MANIFEST_PATH: Final = "manifest.json"
SCHEMA: Final = "manifest/1"


def build_manifest(
    files: Mapping[str, bytes], *, newest_receipt: str | None, trajectory: bytes | None = None
) -> dict[str, Any]:
    """Return the manifest of a trial's files; `trajectory` is an A320 one as submitted."""
    return {
        "schema": SCHEMA,
        "files": {name: digest(data) for name, data in sorted(files.items())},
        "newest_receipt": newest_receipt,
        "as_submitted": None if trajectory is None else _as_submitted(trajectory),
    }


def _as_submitted(trajectory: bytes) -> dict[str, Any]:
    kept = len(whole_lines(trajectory))
    return {"sha256": digest(trajectory), "bytes": kept, "tail": trajectory[kept:].hex()}


def submitted_trajectory(exported: bytes, as_submitted: Any) -> bytes | None:
    """Return the trajectory as submitted; None where `as_submitted` does not say how."""
    try:
        kept, tail = as_submitted["bytes"], bytes.fromhex(as_submitted["tail"])
    except (TypeError, KeyError, ValueError):
        return None
    if type(kept) is not int or not 0 <= kept <= len(exported):
        return None
    return exported[:kept] + tail
