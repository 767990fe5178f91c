"""The run summary: the three accounts of a run and the rate they allow."""

from __future__ import annotations

from collections import Counter
from typing import Any

from grader_service.errors import NotFoundError
from grader_service.grading.service import Service
from grader_service.scoring.accounts import Accounts
from grader_service.storage import gradings, trials


def runs(service: Service) -> list[dict[str, Any]]:
    """Return the runs that there are, newest first."""
    with service.database.read() as unit:
        rows = trials.runs(unit, tenant=service.tenant)
    return [{"run": row.run, "trials": row.trials, "last_submitted_at": row.last} for row in rows]


def run_summary(service: Service, run: str) -> dict[str, Any]:
    """Return a run's summary. Raises NotFoundError for a run without trials."""
    with service.database.read() as unit:
        effective = trials.count_effective(unit, tenant=service.tenant, run=run)
        unfinished = gradings.unfinished_of_run(unit, tenant=service.tenant, run=run)
    if not effective:
        raise NotFoundError(f"there is no run {run!r}", fix="GET /v1/runs lists the runs")
    graded: Counter[str] = Counter()
    reasons: dict[str, Counter[str]] = {"abstained": Counter(), "ungraded": Counter()}
    stub = pending = 0
    for row in effective:
        if row.outcome is None:
            pending += row.n
        elif row.outcome == "graded":
            graded[row.verdict] += row.n
        else:
            reasons[row.outcome][row.reason] += row.n
        stub += row.n if row.source == "stub" else 0
    running = min(pending, sum(row.n for row in unfinished if row.state == "running"))
    accounts = Accounts(
        success=graded["success"],
        failure=graded["failure"],
        abstained=reasons["abstained"],
        ungraded=reasons["ungraded"],
        queued=pending - running,
        running=running,
        stub=stub,
    )
    no_judge = service.judges.default is None and any(not row.judge for row in unfinished)
    return {
        "run": run,
        "trials": accounts.gradable,
        **accounts.to_dict(gradable_share=service.gradable_share),
        "waiting_for": "no judge configured" if no_judge else None,
    }
