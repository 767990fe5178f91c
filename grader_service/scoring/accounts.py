"""The three accounts of a run, graded, abstained and ungraded, and the rate they allow.

They never mix: a rate is over graded trials only, stands beside all three counts, and is left out
where too few trials were graded for it to mean anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from grader_service.scoring.intervals import Interval, wilson


@dataclass(frozen=True)
class Accounts:
    """Counts of one run's trials by what came of them. Cancelled trials are in none of them.

    `stub` counts those among the graded and abstained whose verdict a scripted model gave.
    """

    success: int = 0
    failure: int = 0
    abstained: Mapping[str, int] = field(default_factory=dict)
    ungraded: Mapping[str, int] = field(default_factory=dict)
    queued: int = 0
    running: int = 0
    stub: int = 0

    @property
    def graded(self) -> int:
        return self.success + self.failure

    @property
    def pending(self) -> int:
        return self.queued + self.running

    @property
    def gradable(self) -> int:
        """All trials but cancelled ones: what a rate would have to speak for."""
        return self.graded + self._missing

    @property
    def _missing(self) -> int:
        return sum(self.abstained.values()) + sum(self.ungraded.values()) + self.pending

    def bounds(self) -> Interval | None:
        """Return the rate if every trial without a verdict failed, and if all succeeded."""
        if self.gradable == 0:
            return None
        return Interval(
            self.success / self.gradable, (self.success + self._missing) / self.gradable
        )

    def rate(self, *, gradable_share: float) -> float | None:
        """Return success / graded, or None.

        None for stub verdicts, and when fewer than `gradable_share` of the gradable were graded.
        """
        if self.stub or self.graded == 0 or self.graded < gradable_share * self.gradable:
            return None
        return self.success / self.graded

    def to_dict(self, *, gradable_share: float) -> dict[str, Any]:
        """Return the run summary: the accounts, and the rate with its interval or why not."""
        rate = self.rate(gradable_share=gradable_share)
        interval = wilson(self.success, self.graded) if rate is not None else None
        return {
            "gradable": self.gradable,
            "graded": {"n": self.graded, "success": self.success, "failure": self.failure},
            "abstained": _account(self.abstained),
            "ungraded": _account(self.ungraded),
            "pending": {"n": self.pending, "queued": self.queued, "running": self.running},
            "success_rate": rate,
            "interval": None
            if interval is None
            else {"method": "wilson", "level": 0.95, "low": interval.low, "high": interval.high},
            "bounds": _bounds(self.bounds()),
            "no_rate_because": self._why_no_rate(rate, gradable_share),
            "stub": self.stub > 0,
        }

    def _why_no_rate(self, rate: float | None, gradable_share: float) -> str | None:
        if rate is not None:
            return None
        if self.stub:
            return "STUB: a scripted model gave verdicts of this run"
        if self.gradable == 0:
            return "no trials"
        return (
            f"only {self.graded} of {self.gradable} gradable trials are graded "
            f"(a rate needs {gradable_share:.0%})"
        )


def _account(reasons: Mapping[str, int]) -> dict[str, Any]:
    return {"n": sum(reasons.values()), "by_reason": dict(sorted(reasons.items()))}


def _bounds(bounds: Interval | None) -> dict[str, float] | None:
    return (
        None
        if bounds is None
        else {"all_missing_failed": bounds.low, "all_missing_succeeded": bounds.high}
    )
