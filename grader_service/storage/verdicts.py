"""Verdicts: appended, never changed, and the effective one noted on the trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import case, func, insert, select

from grader_service.records.verdict import Decision, Verdict, effective_verdict
from grader_service.storage import trials
from grader_service.storage.database import Unit
from grader_service.storage.ids import new_id
from grader_service.storage.tables import verdicts

# More than any call has: such a count tells nothing, and sums must stay within 64 bits.
_MOST_TOKENS: Final = 10**9
_NANO: Final = 10**9


@dataclass(frozen=True, slots=True)
class Spent:
    """What the receipts of a run add up to.

    `usd` is None where no cost is known. `untold` and `unpriced` are the verdicts that took calls
    whose tokens or cost are not known, and so are in no sum.
    """

    answers: int
    input_tokens: int
    output_tokens: int
    untold: int
    usd: Decimal | None
    unpriced: int


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
    question: str | None = None,
) -> None:
    """Store a verdict of a trial, and which of its verdicts counts from now on.

    `question` is what the receipt's own reply answers, where another trial may take it over.
    """
    # Locked, so that of two verdicts at once the later one sees the other when it counts them.
    trial = trials.lock(unit, trial_id)
    unit.execute(
        insert(verdicts).values(
            id=new_id(),
            trial_id=trial_id,
            tenant=trial.tenant,
            run=trial.run,
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
            question=question,
            **_spent(receipt or {}),
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


def newest_answer(unit: Unit, question: str) -> dict[str, Any] | None:
    """Return the newest receipt whose own reply answers a question, or None."""
    receipt = unit.execute(
        select(verdicts.c.receipt)
        .where(verdicts.c.question == question)
        .order_by(verdicts.c.at.desc(), verdicts.c.id.desc())
        .limit(1)
    ).scalar()
    return None if receipt is None else dict(receipt)


def spent_on_run(unit: Unit, *, tenant: str, run: str) -> Spent:
    """Add up what the receipts of a run say of tokens and cost."""
    tokens_unknown = verdicts.c.input_tokens.is_(None) | verdicts.c.output_tokens.is_(None)
    row = unit.execute(
        select(
            func.sum(verdicts.c.answers).label("answers"),
            func.sum(verdicts.c.input_tokens).label("input_tokens"),
            func.sum(verdicts.c.output_tokens).label("output_tokens"),
            func.sum(case((tokens_unknown, 1), else_=0)).label("untold"),
            func.sum(verdicts.c.nano_usd).label("nano_usd"),
            func.sum(case((verdicts.c.nano_usd.is_(None), 1), else_=0)).label("unpriced"),
        ).where(verdicts.c.tenant == tenant, verdicts.c.run == run, verdicts.c.answers > 0)
    ).one()
    # Nothing was asked at all: that did cost nothing, for certain.
    nano_usd = 0 if row.answers is None else row.nano_usd
    return Spent(
        answers=int(row.answers or 0),
        input_tokens=int(row.input_tokens or 0),
        output_tokens=int(row.output_tokens or 0),
        untold=int(row.untold or 0),
        usd=None if nano_usd is None else Decimal(int(nano_usd)) / _NANO,
        unpriced=int(row.unpriced or 0),
    )


def _spent(receipt: Mapping[str, Any]) -> dict[str, int | None]:
    """Return the columns that say what a receipt's calls took."""
    if receipt.get("reused_from") is not None:
        # Its answers were counted where they were asked for.
        receipt = {}
    usage, cost = receipt.get("usage") or {}, receipt.get("cost")
    reason = (receipt.get("outcome") or {}).get("reason")
    # An answer that could not be read leaves its error and no reply.
    unread = receipt.get("error") is not None and reason == "reply_invalid"
    return {
        "answers": len(receipt.get("votes") or ()) + bool(receipt.get("reply")) + unread,
        "input_tokens": _count(usage.get("input_tokens")),
        "output_tokens": _count(usage.get("output_tokens")),
        "nano_usd": None if cost is None else int(Decimal(cost["usd"]) * _NANO),
    }


def _count(tokens: int | None) -> int | None:
    return None if tokens is None or tokens > _MOST_TOKENS else tokens


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
