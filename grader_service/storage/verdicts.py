"""Verdicts: appended, never changed, and the effective one noted on the trial."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import insert, select

from grader_service.records.verdict import Decision, Verdict, effective_verdict
from grader_service.storage import trials
from grader_service.storage.database import Unit
from grader_service.storage.ids import new_id
from grader_service.storage.tables import verdicts


def append(
    unit: Unit,
    *,
    trial_id: str,
    source: str,
    decision: Decision,
    note: str | None = None,
    by: str | None = None,
    grading_id: str | None = None,
    primary: bool = True,
    receipt: Mapping[str, Any] | None = None,
) -> None:
    """Store a verdict of a trial, and which of its verdicts counts from now on."""
    unit.execute(
        insert(verdicts).values(
            id=new_id(),
            trial_id=trial_id,
            grading_id=grading_id,
            source=source,
            outcome=decision.outcome,
            verdict=decision.verdict,
            reason=decision.reason,
            note=note,
            by=by,
            primary=primary,
            at=unit.now,
            receipt=None if receipt is None else dict(receipt),
        )
    )
    counts = effective_verdict(of_trial(unit, trial_id))
    if counts is not None:
        trials.set_effective(unit, trial_id, counts)


def of_trial(unit: Unit, trial_id: str) -> list[Verdict]:
    """Return a trial's verdicts in the order in which they were stored."""
    rows = unit.execute(
        select(verdicts)
        .where(verdicts.c.trial_id == trial_id)
        .order_by(verdicts.c.at, verdicts.c.id)
    )
    return [_verdict(row) for row in rows]


def _verdict(row: Any) -> Verdict:
    return Verdict(
        id=row.id,
        source=row.source,
        outcome=row.outcome,
        verdict=row.verdict,
        reason=row.reason,
        at=datetime.fromtimestamp(row.at, UTC).isoformat(timespec="milliseconds"),
        note=row.note,
        by=row.by,
        primary=row.primary,
        receipt=row.receipt,
    )
