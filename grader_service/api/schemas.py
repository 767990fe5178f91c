"""What the trial routes take and give."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from grader_service.grading.read import TrialView
from grader_service.grading.regrade import QueuedGrading
from grader_service.records.verdict import Verdict

# Printable, no control characters: names end up in logs, paths of exports and pages.
Name = Annotated[
    str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")
]

# Higher first among the trials that wait for a judge.
Priority = Annotated[int, Field(strict=True, ge=-10, le=10)]


class FrameIn(BaseModel):
    """One uploaded frame: which camera and phase, and the part that holds its bytes."""

    model_config = ConfigDict(extra="forbid")

    camera: Name
    phase: Literal["first", "last", "parked"]
    part: Name


class SceneIn(BaseModel):
    """The initial condition. `metadata.rubric`, if any, beats the submission's rubric."""

    model_config = ConfigDict(extra="forbid")

    id: Name
    instruction: str = Field(min_length=1, max_length=20_000)
    metadata: dict[str, Any] = {}


class RobotTrialIn(BaseModel):
    """The part `trial` of a robot submission."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["robot"]
    run: Name
    scene: SceneIn
    epoch: int = Field(default=0, ge=0, le=1_000_000)
    client_id: Name | None = None
    rubric: str | dict[str, Any] | None = None
    judge: Name | None = None
    priority: Priority = 0
    fresh: bool = False
    record: Name | None = None
    frames: list[FrameIn] = Field(default=[], max_length=64)


class A320TrialIn(BaseModel):
    """The part `trial` of an A320 submission; the part `trajectory` holds the JSONL."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["a320"]
    run: Name
    client_id: Name | None = None
    rubric: str | dict[str, Any] | None = None
    judge: Name | None = None
    priority: Priority = 0
    fresh: bool = False


class GradingIn(BaseModel):
    """Another grading of a trial: by default under its own rubric, by the judge that it had."""

    model_config = ConfigDict(extra="forbid")

    rubric: str | dict[str, Any] | None = None
    judge: Name | None = None
    fresh: bool = False


class HumanVerdictIn(BaseModel):
    """What a person says of a trial, and why."""

    model_config = ConfigDict(extra="forbid")

    verdict: Literal["success", "failure", "abstain"]
    note: str | None = Field(default=None, max_length=20_000)
    reviewer: Name


class GradingOut(BaseModel):
    """A grading that waits for its judge."""

    id: str
    trial: str
    round: int
    rubric_digest: str
    judge: str | None
    state: Literal["queued"]
    links: dict[str, str]

    @classmethod
    def of(cls, grading: QueuedGrading) -> Self:
        base = f"/v1/trials/{grading.trial_id}"
        return cls(
            id=grading.id,
            trial=grading.trial_id,
            round=grading.round,
            rubric_digest=grading.rubric_digest,
            judge=grading.judge,
            state="queued",
            links={"trial": base, "verdicts": f"{base}/verdicts"},
        )


class TrialOut(BaseModel):
    """A trial's state, and the verdict that counts now."""

    id: str
    run: str
    kind: str
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
    links: dict[str, str]

    @classmethod
    def of(cls, view: TrialView) -> Self:
        base = f"/v1/trials/{view.id}"
        return cls(
            **{name: getattr(view, name) for name in TrialView.__slots__},
            links={
                "self": base,
                "record": f"{base}/record",
                "verdicts": f"{base}/verdicts",
                "scorecard": f"{base}/scorecard",
                "run": f"/v1/runs/{quote(view.run, safe='')}",
            },
        )


class TrialsOut(BaseModel):
    """A page of trials; `next_cursor` asks for the next one."""

    trials: list[TrialOut]
    next_cursor: str | None


class VerdictOut(BaseModel):
    """One verdict of a trial with its receipt."""

    id: str
    source: str
    outcome: str
    verdict: str | None
    reason: str | None
    at: str
    note: str | None
    by: str | None
    effective: bool
    receipt: dict[str, Any] | None

    @classmethod
    def of(cls, verdict: Verdict, *, effective: bool) -> Self:
        return cls(
            id=verdict.id,
            source=verdict.source,
            outcome=verdict.outcome,
            verdict=verdict.verdict,
            reason=verdict.reason,
            at=verdict.at,
            note=verdict.note,
            by=verdict.by,
            effective=effective,
            receipt=None if verdict.receipt is None else dict(verdict.receipt),
        )
