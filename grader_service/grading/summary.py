"""The run summary: the three accounts of a run and the rate they allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grader_service.grading.read import no_run
from grader_service.grading.service import Service
from grader_service.judging.pricing import plain_usd
from grader_service.scoring.accounts import Accounts
from grader_service.storage import gradings, queue_state, trials, verdicts
from grader_service.storage.database import Unit
from grader_service.storage.verdicts import Spent


@dataclass(frozen=True, slots=True)
class RunsPage:
    """The summaries of some runs, and the cursor of the next page."""

    runs: Sequence[dict[str, Any]]
    next_cursor: str | None


def runs(service: Service, *, limit: int = 50, cursor: str | None = None) -> RunsPage:
    """Return runs, the one that began last first: when trials came in, and the summary of each."""
    with service.database.read() as unit:
        rows = trials.runs(unit, tenant=service.tenant, limit=limit + 1, before=cursor)
        shown = rows[:limit]
        listed = [
            _summary(service, unit, row.run)
            | {"first_submitted_at": row.first, "last_submitted_at": row.last}
            for row in shown
        ]
    return RunsPage(listed, next_cursor=shown[-1].first_id if len(rows) > limit else None)


def run_summary(service: Service, run: str) -> dict[str, Any]:
    """Return a run's summary. Raises NotFoundError for a run without trials."""
    with service.database.read() as unit:
        return _summary(service, unit, run)


def _summary(service: Service, unit: Unit, run: str) -> dict[str, Any]:
    effective = trials.count_effective(unit, tenant=service.tenant, run=run)
    cancelled = queue_state.cancelled_of_run(unit, tenant=service.tenant, run=run)
    unfinished = gradings.unfinished_of_run(unit, tenant=service.tenant, run=run)
    spent = verdicts.spent_on_run(unit, tenant=service.tenant, run=run)
    if not effective:
        raise no_run(run)
    graded: Counter[str] = Counter()
    failure_modes: Counter[str] = Counter()
    reasons: dict[str, Counter[str]] = {"abstained": Counter(), "ungraded": Counter()}
    stub = pending = 0
    counted = [(row, row.n) for row in effective] + [(row, -row.n) for row in cancelled]
    for row, n in counted:
        if row.outcome is None:
            pending += n
        elif row.outcome == "graded":
            graded[row.verdict] += n
            if row.failure_mode is not None:
                failure_modes[row.failure_mode] += n
        else:
            reasons[row.outcome][row.reason] += n
        stub += n if row.source == "stub" else 0
    running = min(pending, sum(row.n for row in unfinished if row.state == "running"))
    accounts = Accounts(
        success=graded["success"],
        failure=graded["failure"],
        abstained=reasons["abstained"],
        # Without the reasons of which every trial was cancelled.
        ungraded=+reasons["ungraded"],
        queued=pending - running,
        running=running,
        stub=stub,
    )
    no_judge = service.judges.default is None and any(not row.judge for row in unfinished)
    return {
        "run": run,
        "trials": accounts.gradable,
        "cancelled": sum(row.n for row in cancelled),
        **accounts.to_dict(gradable_share=service.gradable_share),
        "failure_modes": dict(sorted(failure_modes.items())),
        **_expense(spent),
        "waiting_for": "no judge configured" if no_judge else None,
    }


def _expense(spent: Spent) -> dict[str, Any]:
    """Return usage and cost: of all receipts, whether or not their verdicts count."""
    return {
        "usage": {
            "answers": spent.answers,
            "input_tokens": spent.input_tokens,
            "output_tokens": spent.output_tokens,
            "unknown": spent.untold,
        },
        "cost": {
            "usd": None if spent.usd is None else plain_usd(spent.usd),
            "unpriced": spent.unpriced,
        },
    }
