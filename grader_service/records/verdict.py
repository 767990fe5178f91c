"""Verdicts: their words, their three accounts, and which one of several counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from grader_service.errors import RecordError

Outcome = Literal["graded", "abstained", "ungraded"]
VerdictWord = Literal["success", "failure", "abstain"]
Met = Literal["yes", "no", "unclear"]

UNGRADED_REASONS: Final = frozenset(
    {
        "evidence_missing",
        "evidence_unreadable",
        "judge_refused",
        "reply_empty",
        "reply_truncated",
        "reply_invalid",
        "reply_conflicting",
        "reply_mismatched",
        "provider_auth",
        "provider_rejected",
        "provider_quota",
        "provider_unavailable",
        "timeout",
        "worker_lost",
        "budget_exhausted",
        "internal",
    }
)
ABSTAINED_REASONS: Final = frozenset(
    {
        "judge_abstained",
        "criteria_unclear",
        "panel_split",
        "order_swap_disagrees",
        "injection_suspected",
        "nothing_to_judge",
    }
)


@dataclass(frozen=True, slots=True)
class Finding:
    """What a judge said of one criterion."""

    id: str
    evidence: str
    met: Met


@dataclass(frozen=True, slots=True)
class Decision:
    """What one reply, or the lack of one, comes to.

    `verdict` is success or failure when graded, abstain when abstained, None when ungraded;
    `reason` is None when graded, else a code of the closed lists above.
    """

    outcome: Outcome
    verdict: VerdictWord | None
    reason: str | None
    findings: tuple[Finding, ...] = ()
    rationale: str | None = None
    confidence: float | None = None
    injection_suspected: bool = False
    failure_mode: str | None = None

    @classmethod
    def graded(cls, verdict: Literal["success", "failure"], **said: Any) -> Decision:
        return cls("graded", verdict, None, **said)

    @classmethod
    def abstained(cls, reason: str, **said: Any) -> Decision:
        if reason not in ABSTAINED_REASONS:
            raise ValueError(f"{reason!r} is no reason to abstain")
        return cls("abstained", "abstain", reason, **said)

    @classmethod
    def ungraded(cls, reason: str, **said: Any) -> Decision:
        if reason not in UNGRADED_REASONS:
            raise ValueError(f"{reason!r} is no ungraded reason")
        return cls("ungraded", None, reason, **said)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One stored verdict. Verdicts are appended, never changed.

    `source`: embodiment or console (came with the record), human, vlm, llm_judge, or stub.
    `at` is an RFC 3339 time. `primary` is false for panel votes and controls.
    """

    id: str
    source: str
    outcome: Outcome
    verdict: VerdictWord | None
    reason: str | None
    at: str
    note: str | None = None
    by: str | None = None
    primary: bool = True
    receipt: Mapping[str, Any] | None = field(default=None, compare=False)

    def judgement(self) -> dict[str, Any]:
        """Return what a ScoreCard says of this verdict."""
        return {
            "outcome": self.outcome,
            "verdict": self.verdict,
            "reason": self.reason,
            "source": self.source,
        }


_VERDICTS_OF: Final[Mapping[Any, tuple[VerdictWord | None, ...]]] = {
    "graded": ("success", "failure"),
    "abstained": ("abstain",),
    "ungraded": (None,),
}
_FIX: Final = "export the run again"


def read_verdict(value: Any, where: str) -> Verdict:
    """Return the verdict whose fields are in a JSON object. Raises RecordError, naming `where`."""
    try:
        verdict = Verdict(**value)
        fits = verdict.verdict in _VERDICTS_OF[verdict.outcome]
    except (TypeError, KeyError) as error:
        raise RecordError(f"{where} is no verdict: {error!r}", fix=_FIX) from error
    texts = (verdict.id, verdict.source, verdict.at)
    options = (verdict.reason, verdict.note, verdict.by)
    fits = fits and all(isinstance(text, str) for text in texts)
    fits = fits and all(text is None or isinstance(text, str) for text in options)
    if not fits or not isinstance(verdict.primary, bool) or not _is_receipt(verdict.receipt):
        raise RecordError(f"{where} is no verdict", fix=_FIX)
    return verdict


def _is_receipt(value: Any) -> bool:
    """Say whether this is None, or a receipt whose findings can be read."""
    if not isinstance(value, dict):
        return value is None
    findings = value.get("findings")
    return findings is None or (
        isinstance(findings, list)
        and all(
            isinstance(item, dict) and isinstance(item.get("id"), str) and "met" in item
            for item in findings
        )
    )


# A sensor or simulator, and a person at the robot: by the console, or asked by the harness.
DEFINITIVE_SOURCES: Final = frozenset({"embodiment", "console", "prompt"})


def effective_verdict(verdicts: Iterable[Verdict]) -> Verdict | None:
    """Return the verdict that counts, of verdicts in the order in which they were stored.

    A definitive one that came with the record, else the newest human one, else the newest primary
    one that is graded or abstained, else the newest ungraded one: an outage never displaces a
    verdict. Stub verdicts count only where no real judge has spoken.
    """
    best: Verdict | None = None
    for verdict in verdicts:
        if verdict.primary and (best is None or _rank(verdict) >= _rank(best)):
            best = verdict
    return best


def _rank(verdict: Verdict) -> int:
    if verdict.source in DEFINITIVE_SOURCES:
        return 5
    if verdict.source == "human":
        return 4
    spoken = verdict.outcome != "ungraded"
    if verdict.source == "stub":
        return 1 if spoken else 0
    return 3 if spoken else 2
