"""What a chaos run came to: counts, and whatever should not be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sqlalchemy import func, select

from grader_service.storage.database import Database
from grader_service.storage.tables import gradings, trials, verdicts


@dataclass
class Account:
    """The last line of a run, and its problems."""

    submitted: int
    graded: int
    abstained: int
    ungraded: int
    duplicates: int
    lost: int
    paid_calls: int
    bound: int
    disturbances: dict[str, int]
    seconds: float
    problems: list[str] = field(default_factory=list)

    @property
    def line(self) -> str:
        names = (
            *("submitted", "graded", "abstained", "ungraded"),
            *("duplicates", "lost", "paid_calls", "bound"),
        )
        return " ".join(f"{name}={getattr(self, name)}" for name in names)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def settle(
    database: Database,
    *,
    expected: Mapping[str, str],
    asked: Sequence[Mapping[str, Any]],
    disturbances: Mapping[str, int],
    allowance: int,
    seconds: float,
) -> Account:
    """Compare what the database holds with what was acknowledged and with what was asked.

    `expected` is the verdict of an undisturbed run by client id, for every trial that the service
    acknowledged. `asked` is the log of the model. `allowance` is how many calls the disturbances
    may have repeated.
    """
    with database.read() as unit:
        rows = unit.execute(
            select(trials.c.id, trials.c.client_id, trials.c.outcome, trials.c.verdict)
        ).all()
        counted = unit.execute(
            select(verdicts.c.trial_id, func.count().label("n")).group_by(verdicts.c.trial_id)
        )
        of_trial = {row.trial_id: row.n for row in counted}
        unfinished = unit.execute(
            select(trials.c.client_id, gradings.c.state, gradings.c.last_error)
            .join(trials, trials.c.id == gradings.c.trial_id)
            .where(gradings.c.state != "done")
        ).all()
        reasons = Counter(
            unit.execute(
                select(gradings.c.reason).where(gradings.c.outcome == "ungraded")
            ).scalars()
        )
    outcomes = Counter(row.outcome for row in rows)
    copies = Counter(row.client_id for row in rows)
    faults = sum(call["fault"] is not None for call in asked)
    settled = outcomes["graded"] + outcomes["abstained"]
    account = Account(
        submitted=len(expected),
        graded=outcomes["graded"],
        abstained=outcomes["abstained"],
        ungraded=outcomes["ungraded"],
        duplicates=sum(n - 1 for n in copies.values())
        + sum(max(0, n - 1) for n in of_trial.values()),
        lost=sum(copies[client_id] == 0 for client_id in expected)
        + sum(of_trial.get(row.id, 0) == 0 for row in rows),
        paid_calls=len(asked),
        bound=settled + faults + allowance,
        disturbances=dict(disturbances),
        seconds=round(seconds, 1),
    )
    account.problems += [f"{row.client_id} is {row.state}: {row.last_error}" for row in unfinished]
    account.problems += [f"{n} trials are ungraded: {reason}" for reason, n in reasons.items()]
    account.problems += [
        f"{row.client_id} is {row.verdict}, undisturbed it is {expected[row.client_id]}"
        for row in rows
        if row.verdict is not None and row.verdict != expected.get(row.client_id, row.verdict)
    ]
    account.problems += [
        f"{name} was never acknowledged" for name in copies if name not in expected
    ]
    if account.duplicates:
        account.problems.append(f"{account.duplicates} trials or verdicts are there twice")
    if account.lost:
        account.problems.append(f"{account.lost} trials have no verdict")
    if account.paid_calls > account.bound:
        account.problems.append(
            f"{account.paid_calls} calls for {settled} verdicts, {faults} faults and "
            f"{allowance} that disturbances may repeat"
        )
    return account
