"""Read what was stored: a trial and its state, its record with the verdict on it, its ScoreCard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from grader_service.errors import NotFoundError
from grader_service.grading.service import Service
from grader_service.judging.frames import prepare_frame
from grader_service.records.judged import apply_verdict, judged_trajectory
from grader_service.records.saved import load_trial, save_trial
from grader_service.records.trajectory import parse_trajectory
from grader_service.records.verdict import Verdict, effective_verdict
from grader_service.scoring import default_scorers, resolve_scorers, robot_card
from grader_service.scoring.a320 import score_trajectory
from grader_service.storage import gradings, trials, verdicts, workers

# Trials of a run that are read in one transaction.
_PAGE: Final = 100


class Card(Protocol):
    """A ScoreCard of either kind."""

    @property
    def digest(self) -> str: ...

    def canonical(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class TrialView:
    """A trial's state and the verdict that counts now."""

    id: str
    run: str
    kind: Literal["robot", "a320"]
    client_id: str | None
    scene_id: str
    epoch: int
    instruction: str | None
    state: str
    waiting_for: str | None
    outcome: str | None
    verdict: str | None
    reason: str | None
    source: str | None
    note: str | None
    needs_review: bool
    created_at: float


@dataclass(frozen=True, slots=True)
class Page:
    """Some trials, and the cursor of the next page."""

    trials: Sequence[TrialView]
    next_cursor: str | None


def trial(service: Service, trial_id: str) -> TrialView:
    """Return one trial. Raises NotFoundError."""
    with service.database.read() as unit:
        row = trials.get(unit, trial_id, tenant=service.tenant)
        if row is None:
            raise no_trial(trial_id)
        grading = gradings.latest_of(unit, [trial_id])[trial_id]
        paused = workers.paused_judges(unit)
    return _view(row, grading, service, paused)


def trials_by_id(service: Service, trial_ids: Sequence[str]) -> dict[str, TrialView]:
    """Return trials that are known to be there, by id."""
    with service.database.read() as unit:
        rows = trials.of_ids(unit, trial_ids)
        newest = gradings.latest_of(unit, trial_ids)
        paused = workers.paused_judges(unit)
    return {id_: _view(row, newest[id_], service, paused) for id_, row in rows.items()}


def page(
    service: Service,
    *,
    limit: int = 100,
    cursor: str | None = None,
    run: str | None = None,
    state: str | None = None,
    outcome: str | None = None,
    needs_review: bool | None = None,
    client_id: str | None = None,
) -> Page:
    """Return trials in the order of their submission, `limit` at a time."""
    with service.database.read() as unit:
        rows = trials.page(
            unit,
            tenant=service.tenant,
            limit=limit + 1,
            after=cursor,
            run=run,
            state=state,
            outcome=outcome,
            needs_review=needs_review,
            client_id=client_id,
        )
        shown = rows[:limit]
        newest = gradings.latest_of(unit, [row.id for row in shown])
        paused = workers.paused_judges(unit)
    return Page(
        [_view(row, newest[row.id], service, paused) for row in shown],
        next_cursor=shown[-1].id if len(rows) > limit else None,
    )


def _view(row: Any, grading: Any, service: Service, paused: Mapping[str, str]) -> TrialView:
    waiting = None
    if grading.state == "queued":
        if not grading.judge and service.judges.default is None:
            waiting = "no judge configured"
        elif grading.judge in paused:
            waiting = paused[grading.judge]
        elif grading.last_error:
            waiting = grading.last_error.splitlines()[0]
    return TrialView(
        id=row.id,
        run=row.run,
        kind=row.kind,
        client_id=row.client_id,
        scene_id=row.scene_id,
        epoch=row.epoch,
        instruction=row.instruction,
        state=grading.state,
        waiting_for=waiting,
        outcome=row.outcome,
        verdict=row.verdict,
        reason=row.reason,
        source=row.source,
        note=row.note,
        needs_review=row.needs_review,
        created_at=row.created_at,
    )


def verdicts_of(service: Service, trial_id: str) -> list[tuple[Verdict, bool]]:
    """Return a trial's verdicts, oldest first, each with whether it is the effective one."""
    _, stored = trial_with_verdicts(service, trial_id)
    effective = effective_verdict(stored)
    return [(verdict, verdict is effective) for verdict in stored]


def record(service: Service, trial_id: str) -> tuple[str, bytes]:
    """Return a trial's record with its effective verdict written on it, and its media type.

    A robot trial gives its record.json, an A320 one its trajectory with a `judgement` record.
    """
    row, stored = trial_with_verdicts(service, trial_id)
    effective = effective_verdict(stored)
    if row.kind == "a320":
        return "application/x-ndjson", judged_trajectory(
            service.blobs.get(row.record_digest), effective
        )
    saved = load_trial(lambda path: _file(service, row, path))
    judged = save_trial(
        apply_verdict(saved.record, effective),
        saved.scene,
        frames=saved.frames,
        instruction_used=saved.instruction_used,
        planned=saved.planned,
    )
    return "application/json", judged["record.json"]


def frame(service: Service, trial_id: str, sha256: str) -> bytes:
    """Return a frame of a trial, re-encoded as JPEG: bytes from outside are never served."""
    row, _ = trial_with_verdicts(service, trial_id)
    if not any(frame["sha256"] == sha256 for frame in row.frames):
        raise NotFoundError(f"trial {trial_id} has no frame {sha256}")
    return prepare_frame(service.blobs.get(sha256), long_edge=1568).data


def scorecard(service: Service, trial_id: str, scorers: Sequence[str] = ()) -> Card:
    """Return a trial's ScoreCard under the named scorers (A320 cards know no choice of them)."""
    row, stored = trial_with_verdicts(service, trial_id)
    return card_of(service, row, stored, scorers)


def card_of(
    service: Service, row: Any, stored: Sequence[Verdict], scorers: Sequence[str] = ()
) -> Card:
    """Return the ScoreCard of a trial that was read, with its verdicts."""
    effective = effective_verdict(stored)
    if row.kind == "a320":
        return score_trajectory(
            parse_trajectory(judged_trajectory(service.blobs.get(row.record_digest), effective))
        )
    saved = load_trial(lambda path: _file(service, row, path))
    chosen = resolve_scorers(scorers) if scorers else default_scorers()
    return robot_card(saved, effective, chosen)


def trials_of_run(service: Service, run: str) -> Iterator[tuple[Any, list[Verdict]]]:
    """Return the rows of a run's trials, each with its verdicts, in the order of submission.

    Raises NotFoundError for a run without trials when the first one is asked for.
    """
    after: str | None = None
    while True:
        with service.database.read() as unit:
            rows = trials.page(unit, tenant=service.tenant, limit=_PAGE, after=after, run=run)
            stored = {row.id: verdicts.of_trial(unit, row.id) for row in rows}
        if not rows and after is None:
            raise no_run(run)
        for row in rows:
            yield row, stored[row.id]
        if len(rows) < _PAGE:
            return
        after = rows[-1].id


def trial_with_verdicts(service: Service, trial_id: str) -> tuple[Any, list[Verdict]]:
    """Return a trial's row and its verdicts. Raises NotFoundError."""
    with service.database.read() as unit:
        row = trials.get(unit, trial_id, tenant=service.tenant)
        if row is None:
            raise no_trial(trial_id)
        return row, verdicts.of_trial(unit, trial_id)


def no_run(run: str) -> NotFoundError:
    return NotFoundError(f"there is no run {run!r}", fix="GET /v1/runs lists the runs")


def no_trial(trial_id: str) -> NotFoundError:
    return NotFoundError(
        f"there is no trial {trial_id}", fix="GET /v1/trials lists the trials that there are"
    )


def _file(service: Service, row: Any, path: str) -> bytes:
    if path == "record.json":
        return service.blobs.get(row.record_digest)
    return service.blobs.get(path.removeprefix("columns/").removesuffix(".npy"))
