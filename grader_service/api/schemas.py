"""What the trial routes take and give."""

from __future__ import annotations

from typing import Any, Literal, Self
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field

from grader_service.client.forms import Name
from grader_service.grading.read import TrialView
from grader_service.grading.regrade import QueuedGrading
from grader_service.records.verdict import Verdict


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
