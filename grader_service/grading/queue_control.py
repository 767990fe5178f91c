"""What an operator does with the queue: look at it, retry what died, cancel what waits."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from grader_service.errors import InputError, NotFoundError
from grader_service.grading.health import SEEN_S
from grader_service.grading.read import no_trial
from grader_service.grading.service import Service
from grader_service.records.verdict import UNGRADED_REASONS
from grader_service.storage import gradings, queue_state, trials, workers
from grader_service.storage.database import Unit
from grader_service.storage.queue_state import CANCELLED, DEAD_REASONS

# Rows changed in one transaction: workers wait for it no longer than for a few of their own.
_BATCH: Final = 500


def queue_view(service: Service) -> dict[str, Any]:
    """Return what waits, runs and died, judge by judge, and the workers that were seen lately.

    A judge's name is empty for trials that get the default judge of whichever worker takes them.
    `depth` is `due` + `waiting`; `paused` is what keeps a judge from being asked at all; ages are
    in seconds.
    """
    with service.database.read() as unit:
        unfinished = queue_state.unfinished_by_judge(unit, tenant=service.tenant)
        dead = queue_state.dead_by_judge(unit, tenant=service.tenant)
        judges = {
            row.judge: {
                "judge": row.judge,
                "depth": 0,
                "due": 0,
                "oldest_s": None,
                "in_flight": 0,
                "waiting": {"n": 0, "newest_error": None},
                "dead": {"n": 0, "by_reason": {}},
            }
            for row in (*unfinished, *dead)
        }
        for row in unfinished:
            judge: dict[str, Any] = judges[row.judge]
            if row.state == "running":
                judge["in_flight"] = row.n
                continue
            waiting = row.n - row.due
            error = (
                queue_state.newest_error(unit, tenant=service.tenant, judge=row.judge)
                if waiting
                else None
            )
            judge |= {"depth": row.n, "due": row.due, "oldest_s": row.oldest}
            judge["waiting"] = {"n": waiting, "newest_error": error}
        for row in dead:
            account = judges[row.judge]["dead"]
            account["n"] += row.n
            account["by_reason"][row.reason] = row.n
        seen = workers.seen(unit, within_s=SEEN_S)
        paused = workers.paused_judges(unit)
    return {
        "judges": [judges[name] | {"paused": paused.get(name)} for name in sorted(judges)],
        "workers": [
            {
                "worker": worker.node,
                "age_s": worker.age,
                "in_flight": worker.in_flight,
                "stuck": worker.idle > service.stuck_after_s,
                "trouble": worker.trouble,
            }
            for worker in seen
        ],
    }


def retry(service: Service, *, run: str | None = None, reasons: Collection[str] = ()) -> int:
    """Queue another round of the trials of a run, or of all, that ended without a verdict.

    Returns how many. `reasons` are codes of ungraded gradings, or `cancelled`; by default those
    that are our own or the provider's fault. Raises InputError for another code, NotFoundError for
    an unknown run.
    """
    unknown = set(reasons) - UNGRADED_REASONS - {CANCELLED}
    if unknown:
        raise InputError(
            f"{min(unknown)!r} is no reason",
            fix=f"use {', '.join(sorted(UNGRADED_REASONS))} or {CANCELLED}",
        )
    with service.database.read() as unit:
        _require_run(service, unit, run)
        found = queue_state.ended_trials(
            unit, tenant=service.tenant, reasons=reasons or DEAD_REASONS, run=run
        )
    retried = 0
    for batch in _batches(found):
        with service.database.write() as unit:
            retried += len(gradings.retry(unit, batch))
    return retried


def cancel(service: Service, *, run: str | None = None, trial_ids: Sequence[str] = ()) -> int:
    """End what is queued or running of a run, or of trials, without a verdict.

    Returns how many gradings. An answer that is under way is paid for and dropped. Raises
    NotFoundError for a trial or run that is not there, before anything is changed.
    """
    with service.database.read() as unit:
        _require_run(service, unit, run)
        for trial_id in trial_ids:
            if trials.get(unit, trial_id, tenant=service.tenant) is None:
                raise no_trial(trial_id)
        found = queue_state.unfinished_ids(
            unit, tenant=service.tenant, run=run, trial_ids=trial_ids
        )
    cancelled = 0
    for batch in _batches(found):
        with service.database.write() as unit:
            cancelled += gradings.cancel(unit, batch)
    return cancelled


def _require_run(service: Service, unit: Unit, run: str | None) -> None:
    if run is not None and not trials.page(unit, tenant=service.tenant, run=run, limit=1):
        raise NotFoundError(f"there is no run {run!r}", fix="GET /v1/runs lists the runs")


def _batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (ids[start : start + _BATCH] for start in range(0, len(ids), _BATCH))
