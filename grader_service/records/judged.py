"""Verdicts on records: where one lands, and which one a record brings along."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final, Literal

from grader_service.records.canonical import digest_of
from grader_service.records.trajectory import with_judgement
from grader_service.records.trial import Event, TrialRecord
from grader_service.records.verdict import DEFINITIVE_SOURCES, Verdict

# The kind of the event that tells of an abstained or ungraded grading.
GRADING: Final = "grading"
NOTE_CHARACTERS: Final = 2000

_AFFIRMATIVE: Final = frozenset({"success", "pass", "yes", "y", "1", "true"})
_DEFINITIVE_REASONS: Final = frozenset({"success", "failure"})


def is_affirmative_verdict(verdict: str | None) -> bool:
    """Say whether a judgement reads as success, whatever its case and the white space around."""
    return verdict is not None and verdict.strip().lower() in _AFFIRMATIVE


def apply_verdict(record: TrialRecord, verdict: Verdict | None) -> TrialRecord:
    """Return a copy of the record with the verdict where scorers look for it.

    Graded: `operator_judgement`, `operator_note` and an `operator` event. Abstained and ungraded: a
    `grading` event and `metadata["grading_error"]`, no judgement. Both events list the findings of
    the verdict's receipt as `criteria`: [{"id", "met", "required"}]. A verdict that came with the
    record changes nothing but an empty judgement. Steps are shared with the record.
    """
    judged = copy.copy(record)
    judged.metadata = dict(record.metadata)
    judged.events = list(record.events)
    if verdict is None:
        return judged
    if verdict.source in DEFINITIVE_SOURCES and record.operator_judgement is not None:
        return judged
    data: dict[str, Any] = {"source": verdict.source}
    criteria = _criteria(verdict)
    if verdict.outcome == "graded":
        note = None if verdict.note is None else verdict.note[:NOTE_CHARACTERS]
        judged.operator_judgement = verdict.verdict
        if note is not None:
            judged.operator_note = note
        judged.metadata.pop("grading_error", None)
        kind, data = "operator", {"verdict": verdict.verdict, **data, "note": note}
    else:
        judged.operator_judgement = None
        judged.metadata["grading_error"] = f"{verdict.outcome}: {verdict.reason}"
        kind, data = GRADING, {"outcome": verdict.outcome, "reason": verdict.reason, **data}
    if criteria:
        data["criteria"] = criteria
    judged.events.append(Event(kind, len(record.steps), data))
    return judged


def judged_trajectory(data: bytes, verdict: Verdict | None) -> bytes:
    """Return an A320 trajectory with the verdict as a `judgement` record, if there is one."""
    if verdict is None:
        return data
    receipt = None if verdict.receipt is None else digest_of(verdict.receipt)
    return with_judgement(data, verdict.judgement() | {"receipt_digest": receipt})


def _criteria(verdict: Verdict) -> list[dict[str, Any]]:
    findings = (verdict.receipt or {}).get("findings") or ()
    return [
        {"id": item["id"], "met": item["met"], "required": item.get("required", True)}
        for item in findings
    ]


def definitive_verdict(record: TrialRecord) -> tuple[str, Literal["success", "failure"]] | None:
    """Return the source and the verdict that a record brings along, so that no judge is asked.

    That is a judgement that was made when it was recorded, with the source that its last
    `operator` event names (else `console`), or a termination with the reason success or failure.
    """
    judgement = record.operator_judgement
    if isinstance(judgement, str):
        verdict: Literal["success", "failure"] = (
            "success" if is_affirmative_verdict(judgement) else "failure"
        )
        return _judgement_source(record), verdict
    reason = record.termination_reason
    if record.terminated and reason in _DEFINITIVE_REASONS:
        return "embodiment", "success" if reason == "success" else "failure"
    return None


def _judgement_source(record: TrialRecord) -> str:
    for event in reversed(record.events):
        if event.kind == "operator":
            source = event.data.get("source") if isinstance(event.data, Mapping) else None
            return source if isinstance(source, str) else "console"
    return "console"
