"""Trials: what was submitted, and the verdict that counts now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from grader_service.records.verdict import Verdict
from grader_service.storage.database import Unit
from grader_service.storage.ids import new_id
from grader_service.storage.tables import MAX_FAILURE_MODE, gradings, rubrics, trials

_INSERTS: Final[Mapping[str, Callable[..., Any]]] = {
    "postgresql": postgresql.insert,
    "sqlite": sqlite.insert,
}


@dataclass(frozen=True, slots=True)
class NewTrial:
    """A trial that is about to be stored; its blobs are in the blob store already."""

    tenant: str
    run: str
    client_id: str | None
    content_digest: str
    kind: str
    scene_id: str
    epoch: int
    instruction: str | None
    rubric_digest: str
    record_digest: str
    columns: Sequence[str]
    frames: Sequence[Mapping[str, Any]]
    # Where the instruction was found: record, observation or scene.
    instruction_from: str = "scene"


class ClientIdTakenError(Exception):
    """Another transaction stored a trial under this client id."""


def add(unit: Unit, trial: NewTrial) -> str:
    """Insert a trial and return its id. Raises ClientIdTakenError on a race for the client id."""
    trial_id = new_id()
    values = {name: getattr(trial, name) for name in NewTrial.__slots__}
    try:
        unit.execute(
            insert(trials).values(
                id=trial_id,
                created_at=unit.now,
                **(values | {"columns": list(trial.columns), "frames": list(trial.frames)}),
            )
        )
    except IntegrityError as error:
        raise ClientIdTakenError from error
    return trial_id


def get(unit: Unit, trial_id: str, *, tenant: str) -> Any | None:
    """Return a trial's row, or None."""
    return unit.execute(
        select(trials).where(trials.c.id == trial_id, trials.c.tenant == tenant)
    ).first()


def of_ids(unit: Unit, trial_ids: Sequence[str]) -> dict[str, Any]:
    """Return the rows of trials by their ids."""
    rows = unit.execute(select(trials).where(trials.c.id.in_(trial_ids)))
    return {row.id: row for row in rows}


def by_id(unit: Unit, trial_id: str) -> Any:
    """Return the row of a trial that a grading names: it is there, whoever its tenant is."""
    return unit.execute(select(trials).where(trials.c.id == trial_id)).one()


def lock(unit: Unit, trial_id: str) -> Any:
    """Return a trial's row, which no other transaction changes or locks before this one ends."""
    return unit.execute(select(trials).where(trials.c.id == trial_id).with_for_update()).one()


def flag_for_review(unit: Unit, trial_id: str) -> None:
    unit.execute(update(trials).where(trials.c.id == trial_id).values(needs_review=True))


def by_client_id(unit: Unit, client_id: str, *, tenant: str) -> Any | None:
    """Return the trial that was submitted under a client id, or None."""
    return unit.execute(
        select(trials).where(trials.c.client_id == client_id, trials.c.tenant == tenant)
    ).first()


def page(
    unit: Unit,
    *,
    tenant: str,
    limit: int,
    after: str | None = None,
    run: str | None = None,
    state: str | None = None,
    outcome: str | None = None,
    needs_review: bool | None = None,
    client_id: str | None = None,
) -> list[Any]:
    """Return up to `limit` trials in the order of their ids, those after the id `after`."""
    statement = select(trials).where(trials.c.tenant == tenant)
    if run is not None:
        statement = statement.where(trials.c.run == run)
    if client_id is not None:
        statement = statement.where(trials.c.client_id == client_id)
    if outcome is not None:
        statement = statement.where(trials.c.outcome == outcome)
    if needs_review is not None:
        statement = statement.where(trials.c.needs_review == needs_review)
    if after is not None:
        statement = statement.where(trials.c.id > after)
    if state is not None:
        newest = (
            select(func.max(gradings.c.id))
            .where(gradings.c.trial_id == trials.c.id)
            .scalar_subquery()
        )
        statement = statement.join(gradings, gradings.c.id == newest).where(
            gradings.c.state == state
        )
    return list(unit.execute(statement.order_by(trials.c.id).limit(limit)))


def set_effective(unit: Unit, trial_id: str, verdict: Verdict) -> None:
    """Note on the trial which verdict counts."""
    unit.execute(
        update(trials)
        .where(trials.c.id == trial_id)
        .values(
            outcome=verdict.outcome,
            verdict=verdict.verdict,
            reason=verdict.reason,
            source=verdict.source,
            note=verdict.note,
            failure_mode=_failure_mode(verdict),
        )
    )


def _failure_mode(verdict: Verdict) -> str | None:
    """Return what went wrong by a failure's receipt: informative, so cut where it is too long."""
    mode = (verdict.receipt or {}).get("failure_mode")
    return mode[:MAX_FAILURE_MODE] if verdict.verdict == "failure" and mode else None


def runs(unit: Unit, *, tenant: str, limit: int, before: str | None = None) -> list[Any]:
    """Return up to `limit` rows (run, first_id, first, last), the run that began last first.

    `first_id` is the run's first trial, `first` and `last` are times; with `before`, only runs
    whose first trial is older than that one.
    """
    first_id = func.min(trials.c.id).label("first_id")
    first = func.min(trials.c.created_at).label("first")
    last = func.max(trials.c.created_at).label("last")
    statement = (
        select(trials.c.run, first_id, first, last)
        .where(trials.c.tenant == tenant)
        .group_by(trials.c.run)
        .order_by(first_id.desc())
        .limit(limit)
    )
    if before is not None:
        statement = statement.having(first_id < before)
    return list(unit.execute(statement))


def count_effective(unit: Unit, *, tenant: str, run: str) -> list[Any]:
    """Return rows (outcome, verdict, reason, source, failure_mode, n) over a run's trials."""
    names = ("outcome", "verdict", "reason", "source", "failure_mode")
    columns = [trials.c[name] for name in names]
    return list(
        unit.execute(
            select(*columns, func.count().label("n"))
            .where(trials.c.tenant == tenant, trials.c.run == run)
            .group_by(*columns)
        )
    )


def put_rubric(unit: Unit, *, digest: str, rubric_id: str, body: Mapping[str, Any]) -> None:
    """Store a rubric under its digest, unless it is there."""
    known = unit.execute(select(rubrics.c.digest).where(rubrics.c.digest == digest)).first()
    if known is None:
        # Another transaction may be storing it right now.
        new = _INSERTS[unit.dialect](rubrics).values(digest=digest, id=rubric_id, body=dict(body))
        unit.execute(new.on_conflict_do_nothing())


def get_rubric(unit: Unit, digest: str) -> dict[str, Any] | None:
    """Return a stored rubric's body, or None."""
    body = unit.execute(select(rubrics.c.body).where(rubrics.c.digest == digest)).scalar()
    return None if body is None else dict(body)
