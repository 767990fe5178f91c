"""One log, and what becomes of it when the verdicts of its trials are written into it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from grader_service.client.harvest.asking import (
    Told,
    ask,
    saw_parked_frames,
    verdict_of,
    whole_trial,
)
from grader_service.client.harvest.errors_told import failed_scorers
from grader_service.client.harvest.log_file import LogFile, read_log, write_log
from grader_service.client.harvest.log_trials import LogTrial, trials_of
from grader_service.client.harvest.patch import Answer, Rescoring, patched
from grader_service.client.harvest.reducer import find_reducer, registered_task
from grader_service.client.harvest.scorers import left_alone, of_record, of_verdict
from grader_service.client.http import Client
from grader_service.errors import InputError
from grader_service.scoring import value_to_float

_POLL_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a harvest is to do.

    `scorers` are to run on whole records again, `leave` stay as they are in any case. With
    `again`, verdicts that were harvested before are asked for once more. Trials without a verdict
    yet are waited for until `give_up` (the monotonic clock).
    """

    reducer: str | None = None
    scorers: tuple[str, ...] = ()
    leave: tuple[str, ...] = ()
    again: bool = False
    give_up: float = 0.0


@dataclass(frozen=True, slots=True)
class Change:
    """A trial's verdict before and after."""

    scene_id: str
    epoch: int
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Harvest:
    """A log, its new value, and the trials that have no verdict in it: how many and why.

    `left_alone` are scorers that were not run again although they may read verdicts.
    """

    log: LogFile
    value: dict[str, Any]
    changes: tuple[Change, ...]
    pending: int
    cancelled: int
    missing: int
    rejected: int
    left_alone: tuple[str, ...]

    @property
    def changed(self) -> bool:
        return self.value != self.log.value

    @property
    def complete(self) -> bool:
        """Whether every trial that the log waits for has been dealt with."""
        return not (self.pending or self.cancelled or self.missing or self.rejected)

    def write(self) -> None:
        """Write the new value, unless the log has it already. Raises ConflictError, InputError."""
        if self.changed:
            write_log(self.log, self.value)


def harvest(client: Client, path: Path, wishes: Wishes) -> Harvest:
    """Return what a log will be with the verdicts that the service has of its trials.

    Raises InputError, with its reason, for a log that must stay as it is, and UnavailableError.
    """
    log = read_log(path)
    trials = trials_of(log)
    told = _ask(client, [trial for trial in trials if _is_open(trial, wishes)], wishes)
    states = Counter(one.state for one in told)
    lost = [one.trial for one in told if one.state == "missing"]
    if lost and len(lost) == len(told) and all(trial.marker is None for trial in lost):
        raise InputError(
            f"the service knows no trial of {path}, which was not graded through it",
            fix=f"submit them first: autograder submit {path}",
        )
    news = [one for one in told if one.state == "ready" and (one.is_news or wishes.scorers)]
    names = _scorer_names(log)
    value = _value(client, log, news, names, wishes) if news else log.value
    rejected = sum((trial.marker or {}).get("state") == "rejected" for trial in lost)
    return Harvest(
        log=log,
        value=value,
        changes=tuple(_changes(log, value)),
        pending=states["pending"],
        cancelled=states["cancelled"],
        missing=len(lost) - rejected,
        rejected=rejected,
        left_alone=tuple(left_alone(names - set(wishes.scorers) - set(wishes.leave))),
    )


def _is_open(trial: LogTrial, wishes: Wishes) -> bool:
    """Say whether the service is asked about a trial: of settled ones only where that is wished."""
    if not trial.settled or wishes.scorers:
        return True
    return wishes.again and trial.harvested


def _ask(client: Client, trials: Sequence[LogTrial], wishes: Wishes) -> list[Told]:
    told = [ask(client, trial) for trial in trials]
    while any(one.state == "pending" for one in told) and time.monotonic() < wishes.give_up:
        time.sleep(_POLL_S)
        told = [ask(client, one.trial) if one.state == "pending" else one for one in told]
    return told


def _scorer_names(log: LogFile) -> set[str]:
    samples = log.value["samples"]
    scored = {name for sample in samples for epoch in sample["epochs"] for name in epoch}
    return scored | {name for sample in samples for name in failed_scorers(sample)}


def _value(
    client: Client, log: LogFile, news: Sequence[Told], names: set[str], wishes: Wishes
) -> dict[str, Any]:
    task = registered_task(log)
    rescoring = Rescoring(
        reducer=find_reducer(log, task, given=wishes.reducer),
        of_verdict=of_verdict(names - {*wishes.leave, *wishes.scorers}, log.dialect),
        of_record=of_record(wishes.scorers, names, task, log.dialect),
    )
    _check_ours(log, news, rescoring)
    _check_scored(log, news, names - set(rescoring.names) - set(wishes.leave))
    with_receipt = "criteria_met" in rescoring.of_verdict
    answers = [_answer(client, one, rescoring, with_receipt=with_receipt) for one in news]
    return patched(log, answers, rescoring)


def _check_scored(log: LogFile, news: Sequence[Told], names: set[str]) -> None:
    """Raise InputError for a scorer that can't do without verdicts: it scored no waiting trial."""
    waited = [one.trial for one in news if not one.trial.settled and not one.trial.harvested]
    for name in left_alone(names):
        if waited and not any(name in trial.scores for trial in waited):
            raise InputError(
                f"{log.path}: {name!r} scored none of the trials that waited for their verdicts, "
                "and the verdicts alone don't tell its scores",
                fix=f"run it again on the stored records with --scorer {name}, or leave its scores "
                f"out with --leave {name}",
            )


def _check_ours(log: LogFile, news: Sequence[Told], rescoring: Rescoring) -> None:
    """Raise InputError for a scorer that has the name of one of ours and is another."""
    waited = [one.trial for one in news if not one.trial.settled and not one.trial.harvested]
    for name, scorer in rescoring.of_verdict.items():
        for trial in waited:
            if name not in trial.scores:
                continue
            try:
                ours = value_to_float(scorer(trial.record(), None).value, dialect=log.dialect)
            except TypeError:  # it abstains, which dialect 0.60 does not know
                ours = None
            if trial.scores[name] != ours:
                raise InputError(
                    f"{log.path}: the scorer {name!r} of this log is not the one that is known "
                    f"here: it scored {trial.scores[name]} where that gives {ours}",
                    fix=f"run its task's own on the stored records with --scorer {name}, or leave "
                    f"its scores as they are with --leave {name}",
                )


def _answer(client: Client, told: Told, rescoring: Rescoring, *, with_receipt: bool) -> Answer:
    found = told.found
    assert found is not None
    saved = whole_trial(client, told) if rescoring.of_record else None
    if told.trial.settled and not told.trial.harvested:
        return Answer(told.trial, found["run"], found["id"], None, saved=saved)
    verdict = verdict_of(client, told, with_receipt=with_receipt)
    return Answer(
        trial=told.trial,
        run=found["run"],
        id=found["id"],
        verdict=verdict,
        parked=saw_parked_frames(client, verdict),
        saved=saved,
    )


def _changes(log: LogFile, value: dict[str, Any]) -> list[Change]:
    after = LogFile(log.path, log.data, value)
    return [
        Change(old.scene_id, old.epoch, old.verdict, new.verdict)
        for old, new in zip(trials_of(log), trials_of(after), strict=True)
        if old.verdict != new.verdict or old.marker != new.marker
    ]
