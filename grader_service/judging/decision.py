"""From findings to a verdict: the model says what it sees, code decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grader_service.judging.rubric import Rubric
    from grader_service.records.verdict import Finding


def decide(rubric: Rubric, findings: Iterable[Finding]) -> Literal["success", "failure", "abstain"]:
    """Return what the findings on the required criteria come to.

    A criterion without a finding is unclear. all_required is the case of at_least with all of
    them: one `no` leaves fewer than that, and less than all `yes` does not reach it.
    """
    met = {finding.id: finding.met for finding in findings}
    answers = [met.get(criterion.id, "unclear") for criterion in rubric.required]
    needed = len(answers) if rubric.decision == "all_required" else rubric.decision.at_least
    if answers.count("yes") >= needed:
        return "success"
    if answers.count("yes") + answers.count("unclear") < needed:
        return "failure"
    return "abstain"
