"""What the service says of the trials in a log."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from grader_service.client.harvest.log_trials import LogTrial
from grader_service.client.http import Client
from grader_service.client.types import Trial
from grader_service.errors import NotFoundError
from grader_service.records.judged import NOTE_CHARACTERS
from grader_service.records.saved import SavedTrial, load_trial, parse_record_json
from grader_service.records.verdict import DEFINITIVE_SOURCES, Verdict

# `ready`: the verdict, or that there is none for good. `missing`: the service does not know the
# trial, so it was never submitted, waits in a spool or was refused.
State = Literal["ready", "pending", "cancelled", "missing"]


@dataclass(frozen=True, slots=True)
class Told:
    """A trial, and what the service said of it if it knows it."""

    trial: LogTrial
    found: Trial | None

    @property
    def state(self) -> State:
        found = self.found
        if found is None:
            return "missing"
        if found["state"] == "cancelled" and found["outcome"] is None:
            return "cancelled"
        # While a trial is graded once more, a verdict that it has stands.
        if found["state"] in ("done", "cancelled") or found["outcome"] in ("graded", "abstained"):
            return "ready"
        return "pending"

    @property
    def is_news(self) -> bool:
        """Whether a trial that is ready has another verdict than its log says."""
        trial, found = self.trial, self.found
        assert found is not None
        if trial.marker is None or trial.marker.get("state") != "done":
            return True
        said = [trial.marker.get("outcome"), trial.marker.get("reason")]
        fields = ("operator_judgements", "judgement_sources", "operator_notes")
        says = [found["outcome"], found["reason"]]
        if found["outcome"] == "graded":
            note = found["note"]
            said += [trial.of(field) for field in fields]
            says += [found["verdict"], found["source"], note and note[:NOTE_CHARACTERS]]
        return said != says


def ask(client: Client, trial: LogTrial) -> Told:
    """Ask the service about a trial. Raises UnavailableError."""
    return Told(trial, client.find(trial.client_id))


def verdict_of(client: Client, told: Told, *, with_receipt: bool) -> Verdict:
    """Return the effective verdict of a trial that is ready; a receipt takes one more question."""
    found = told.found
    assert found is not None
    assert found["source"] is not None
    assert found["outcome"] is not None
    receipt = None
    if with_receipt:
        verdicts = client.verdicts(found["id"])
        receipt = next((one["receipt"] for one in verdicts if one["effective"]), None)
    return Verdict(
        id=found["id"],
        source=found["source"],
        outcome=found["outcome"],
        verdict=found["verdict"],
        reason=found["reason"],
        at="",
        note=found["note"],
        receipt=receipt,
    )


def saw_parked_frames(client: Client, verdict: Verdict) -> bool:
    """Say whether a judge saw the robot parked; a verdict that a trial brought saw nothing."""
    if verdict.outcome != "graded" or verdict.source in DEFINITIVE_SOURCES:
        return False
    with suppress(NotFoundError):
        frames = parse_record_json(client.record(verdict.id)).frames
        return any(frame.phase == "parked" for frame in frames)
    return False


def whole_trial(client: Client, told: Told) -> SavedTrial:
    """Return a trial as it was submitted, steps and all."""
    assert told.found is not None
    return load_trial(client.files(told.found["id"]).__getitem__)
