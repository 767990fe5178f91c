"""Verdicts on live records: those that a trial brings along, and those of the service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from inspect_robots.transcript import Event, operator_event

from grader_service.records.judged import GRADING, NOTE_CHARACTERS

# Where a record's metadata say what became of its submission. Plain JSON: it lands in the log.
MARKER: Final = "autograder"
GRADING_ERROR: Final = "grading_error"
_DEFINITIVE: Final = frozenset({"success", "failure"})


def new_marker(client_id: str, run: str) -> dict[str, Any]:
    """Return the marker of a trial that waits for its verdict.

    Its keys never change, only their values do: the harness may be writing it just then.
    """
    return {
        "client_id": client_id,
        "run": run,
        "trial": None,
        "state": "pending",
        "outcome": None,
        "reason": None,
    }


def adopt(record: Any) -> bool:
    """Take the verdict of the console or of the embodiment, if there is one; say whether."""
    if record.operator_judgement is not None:
        return True
    if not (record.terminated and record.termination_reason in _DEFINITIVE):
        return False
    verdict = record.termination_reason
    record.operator_judgement = verdict
    record.events.append(operator_event(len(record.steps), verdict, source="embodiment"))
    return True


def settle(marker: dict[str, Any], outcome: str | None, reason: str | None = None) -> None:
    """Mark that the verdict, or that there is none, stands on the record."""
    marker.update(state="done", outcome=outcome, reason=reason)


def land(record: Any, trial: Mapping[str, Any], *, parked: bool) -> None:
    """Write what the service says of an ended trial onto its record.

    `parked` says whether the judge saw parked frames.
    """
    outcome, reason, t = trial["outcome"], trial["reason"], len(record.steps)
    if outcome != "graded":
        record.metadata[GRADING_ERROR] = f"{outcome}: {reason}"
        data = {"outcome": outcome, "reason": reason, "source": trial["source"]}
        record.events.append(Event(GRADING, t, data))
        return
    note = None if trial["note"] is None else trial["note"][:NOTE_CHARACTERS]
    if parked:
        record.metadata["graded_frames"] = "parked"
    record.operator_judgement = trial["verdict"]
    record.operator_note = note
    record.events.append(operator_event(t, trial["verdict"], source=trial["source"], note=note))
