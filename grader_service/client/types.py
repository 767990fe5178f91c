"""What the service answers, as types. At run time each is a plain dict, as it came."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypedDict

Outcome = Literal["graded", "abstained", "ungraded"]
VerdictWord = Literal["success", "failure", "abstain"]


class Trial(TypedDict):
    """A trial's state, and the verdict that counts now."""

    id: str
    run: str
    kind: Literal["robot", "a320"]
    client_id: str | None
    scene_id: str
    epoch: int
    instruction: str | None
    state: Literal["queued", "running", "done", "cancelled"]
    waiting_for: str | None
    outcome: Outcome | None
    verdict: VerdictWord | None
    reason: str | None
    source: str | None
    note: str | None
    needs_review: bool
    created_at: float
    links: dict[str, str]


class Verdict(TypedDict):
    """One verdict of a trial with its receipt, if it has one; `at` is an ISO time."""

    id: str
    source: str
    outcome: Outcome
    verdict: VerdictWord | None
    reason: str | None
    at: str
    note: str | None
    by: str | None
    effective: bool
    receipt: dict[str, Any] | None


class Grading(TypedDict):
    """A grading that waits for its judge."""

    id: str
    trial: str
    round: int
    rubric_digest: str
    judge: str | None
    state: Literal["queued"]
    links: dict[str, str]


class Graded(TypedDict):
    """Trials with a verdict."""

    n: int
    success: int
    failure: int


class Account(TypedDict):
    """Trials without one, by reason code."""

    n: int
    by_reason: dict[str, int]


class Pending(TypedDict):
    """Trials that have not ended."""

    n: int
    queued: int
    running: int


class Interval(TypedDict):
    """An interval of the success rate."""

    method: str
    level: float
    low: float
    high: float


class Bounds(TypedDict):
    """The success rate if every trial without a verdict had failed, and if all had succeeded."""

    all_missing_failed: float
    all_missing_succeeded: float


class Usage(TypedDict):
    """What the answers of judges took; `unknown` counts verdicts that do not tell."""

    answers: int
    input_tokens: int
    output_tokens: int
    unknown: int


class Cost(TypedDict):
    """US dollars as a decimal number; `unpriced` counts verdicts without a price."""

    usd: str | None
    unpriced: int


class RunSummary(TypedDict):
    """The three accounts of a run, and its success rate or why there is none."""

    run: str
    trials: int
    gradable: int
    cancelled: int
    graded: Graded
    abstained: Account
    ungraded: Account
    pending: Pending
    success_rate: float | None
    interval: Interval | None
    bounds: Bounds | None
    no_rate_because: str | None
    stub: bool
    failure_modes: dict[str, int]
    usage: Usage
    cost: Cost
    waiting_for: str | None


class ListedRun(RunSummary):
    """A run in a listing; times are seconds since the epoch."""

    first_submitted_at: float
    last_submitted_at: float


class Judge(TypedDict):
    """A configured judge. Its digest changes with whatever changes its answers."""

    name: str
    provider: str
    model: str
    stub: bool
    default: bool
    digest: str


class StoredRubric(TypedDict):
    """A rubric, and the digest of its canonical form."""

    digest: str
    rubric: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SummaryChanged:
    """A run's summary as it is now."""

    summary: RunSummary


@dataclass(frozen=True, slots=True)
class TrialEnded:
    """A trial that has been graded, cancelled, or given up as ungraded."""

    trial: Trial


@dataclass(frozen=True, slots=True)
class RunEnded:
    """Nothing of the run is pending: the last thing that is told of it."""

    summary: RunSummary


Progress = SummaryChanged | TrialEnded | RunEnded
