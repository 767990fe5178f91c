"""The trials in a log: who graded them, and under which client id the service knows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from grader_service.client.harvest.log_file import LogFile
from grader_service.records.canonical import digest_of
from grader_service.records.judged import is_affirmative_verdict
from grader_service.records.trial import Event, TrialRecord
from grader_service.records.verdict import DEFINITIVE_SOURCES

# Where a trial's metadata tells of its submission:
# {"client_id", "run", "trial", "state": pending|done|rejected, "outcome", "reason"}.
MARKER: Final = "autograder"
# What a log says of itself that neither a harvest nor a move to another folder changes.
_IDENTITY: Final = ("created", "task", "policy", "embodiment", "seed")


@dataclass(frozen=True, slots=True)
class LogTrial:
    """A trial that ran to its end: `sample` and `epoch` are its place in the log.

    `own_id` is the client id that follows from the log alone. `marker` is None where neither the
    grader `autograder` nor a harvest left one.
    """

    log: LogFile
    sample: int
    epoch: int
    own_id: str
    marker: Mapping[str, Any] | None

    @property
    def client_id(self) -> str:
        """The client id under which the service knows the trial, if it knows it."""
        return self.own_id if self.marker is None else str(self.marker["client_id"])

    @property
    def scene_id(self) -> str:
        return str(self.scene["scene_id"])

    @property
    def scene(self) -> Mapping[str, Any]:
        """What the log says of the trial's scene."""
        found: Mapping[str, Any] = self.log.value["samples"][self.sample]
        return found

    def of(self, field: str) -> Any:
        """Return the trial's entry in one of the lists that are parallel to `epochs`."""
        return self.scene[field][self.epoch]

    @property
    def scores(self) -> Mapping[str, float | None]:
        found: Mapping[str, float | None] = self.of("epochs")
        return found

    @property
    def settled(self) -> bool:
        """Whether its verdict is in the log already, whoever gave it."""
        return self.of("operator_judgements") is not None

    @property
    def harvested(self) -> bool:
        """Whether the service gave what the log says of its verdict, or of its lack."""
        if self.marker is None or self.marker.get("state") != "done":
            return False
        # The grader adopts a verdict that a trial brings along; a log without one had no grader.
        adopted = self.of("judgement_sources") in DEFINITIVE_SOURCES
        return not adopted or self.client_id == self.own_id

    @property
    def verdict(self) -> str:
        """What the log says of its verdict, for people."""
        judgement = self.of("operator_judgements")
        if judgement is not None:
            return "success" if is_affirmative_verdict(judgement) else "failure"
        error = self.of("trial_metadata").get("grading_error")
        return str(error) if error else "none"

    def record(self) -> TrialRecord:
        """Return the record that the log holds of the trial, as it was before it was harvested."""
        metadata = dict(self.of("trial_metadata"))
        judgement, note = self.of("operator_judgements"), self.of("operator_notes")
        events = []
        if self.harvested:
            judgement = note = None
            for key in (MARKER, "grading_error", "graded_frames"):
                metadata.pop(key, None)
        elif judgement is not None:
            told = {"verdict": judgement, "source": self.of("judgement_sources"), "note": note}
            events = [Event("operator", -1, told)]
        return TrialRecord(
            scene_id=self.scene_id,
            epoch=self.epoch,
            seed=None,
            termination_reason=self.of("termination_reasons"),
            operator_judgement=judgement,
            operator_note=note,
            events=events,
            metadata=metadata,
        )


def trials_of(log: LogFile) -> list[LogTrial]:
    """Return the trials of a log that ran to their end, in its order."""
    said = log.value["eval"]
    identity = {name: said.get(name) for name in _IDENTITY}
    trials = []
    for number, sample in enumerate(log.value["samples"]):
        for epoch, scores in enumerate(sample["epochs"]):
            marker = sample["trial_metadata"][epoch].get(MARKER)
            if not isinstance(marker, dict) or not isinstance(marker.get("client_id"), str):
                marker = None
            # A trial that broke off has no scores, and no grader saw it.
            if not scores and marker is None:
                continue
            own = digest_of({**identity, "scene": sample["scene_id"], "epoch": epoch})
            trials.append(LogTrial(log, number, epoch, own[:32], marker))
    return trials
