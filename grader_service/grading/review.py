"""A person's verdict on a trial."""

from __future__ import annotations

from typing import Literal

from grader_service.grading.read import no_trial
from grader_service.grading.service import Service
from grader_service.records.verdict import (
    DEFINITIVE_SOURCES,
    Decision,
    Verdict,
    VerdictWord,
    effective_verdict,
)
from grader_service.storage import trials, verdicts


def add_human_verdict(
    service: Service, trial_id: str, *, verdict: VerdictWord, note: str | None, reviewer: str
) -> tuple[Verdict, bool]:
    """Store what a person says of a trial; return the verdict and whether it counts now.

    It counts unless the record came with a definitive verdict, which then needs a review if the
    person says the opposite. Raises NotFoundError.
    """
    with service.database.write() as unit:
        if trials.get(unit, trial_id, tenant=service.tenant) is None:
            raise no_trial(trial_id)
        verdicts.append(
            unit,
            trial_id=trial_id,
            source="human",
            decision=_decision(verdict),
            note=note,
            by=reviewer,
        )
        stored = verdicts.of_trial(unit, trial_id)
        counts, said = effective_verdict(stored), stored[-1]
        assert counts is not None
        opposite = {counts.verdict, verdict} == {"success", "failure"}
        if counts.source in DEFINITIVE_SOURCES and opposite:
            trials.flag_for_review(unit, trial_id)
    return said, said is counts


def _decision(verdict: Literal["success", "failure", "abstain"]) -> Decision:
    return (
        Decision.abstained("judge_abstained") if verdict == "abstain" else Decision.graded(verdict)
    )
