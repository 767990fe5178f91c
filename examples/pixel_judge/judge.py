"""From a request to a judgement: which check answers which criterion, and what they come to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from examples.pixel_judge.checks import (
    Finding,
    goal_reached,
    others_undisturbed,
    released,
    upright,
)
from examples.pixel_judge.scene import Scene, UnseenError
from examples.pixel_judge.task import Task, read_task

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from examples.pixel_judge.checks import Met
    from examples.pixel_judge.prompt import Criterion, Request

    Check = Callable[[Scene, Task, str], Finding]

Verdict = Literal["success", "failure", "abstain"]

# The checks that the words of a criterion call for. It is about the goal too if it speaks of a
# place or a state, or of nothing else that can be checked.
_CHECKS: Final[tuple[tuple[re.Pattern[str], Check], ...]] = (
    (re.compile(r"\bother (?:object|thing|item)", re.IGNORECASE), others_undisturbed),
    (
        re.compile(
            r"\bgripper|\breleas|\blet go|\b(?:not|nothing|no longer) (?:held|hold|touch)",
            re.IGNORECASE,
        ),
        released,
    ),
    (re.compile(r"\bupright\b", re.IGNORECASE), upright),
)
_OF_THE_GOAL: Final = re.compile(
    r"\b(?:inside|within|area|square|circle|bin|container|rests on|on top of|closed?)\b",
    re.IGNORECASE,
)
_VERDICTS: Final[dict[Met, Verdict]] = {"yes": "success", "no": "failure", "unclear": "abstain"}


class Judgement(NamedTuple):
    """One finding per criterion, in the order asked, and what the required ones come to."""

    findings: Sequence[Finding]
    verdict: Verdict
    confidence: float
    rationale: str


def judge(request: Request) -> Judgement:
    """Judge what the frames of a request show."""
    findings = _findings(request)
    total = _all_of(
        [
            finding
            for criterion, finding in zip(request.criteria, findings, strict=True)
            if criterion.required
        ]
    )
    return Judgement(findings, _VERDICTS[total.met], total.certainty, total.evidence)


def _findings(request: Request) -> Sequence[Finding]:
    task = read_task(request.instruction)
    if task is None:
        unknown = Finding("unclear", "this judge has no check for the task")
        return [unknown] * len(request.criteria)
    try:
        scene = Scene.of(request.views)
    except UnseenError as reason:
        return [Finding("unclear", str(reason))] * len(request.criteria)
    return [
        _answer(scene, task, criterion, alone=len(request.criteria) == 1)
        for criterion in request.criteria
    ]


def _answer(scene: Scene, task: Task, criterion: Criterion, *, alone: bool) -> Finding:
    """Answer a criterion. One that stands alone has to say all that success means."""
    checks = [check for words, check in _CHECKS if words.search(criterion.text)]
    if alone or not checks or _OF_THE_GOAL.search(criterion.text):
        checks.insert(0, goal_reached)
    if alone and task.let_go and released not in checks:
        checks.append(released)
    return _all_of([_run(check, scene, task, criterion) for check in checks])


def _run(check: Check, scene: Scene, task: Task, criterion: Criterion) -> Finding:
    try:
        return check(scene, task, criterion.text)
    except UnseenError as reason:
        return Finding("unclear", str(reason))


def _all_of(findings: Sequence[Finding]) -> Finding:
    """Any no is a no; all yes is a yes; else, and if there are none, it is unclear."""
    failed = [finding for finding in findings if finding.met == "no"]
    unclear = [finding for finding in findings if finding.met == "unclear"]
    if failed:
        return Finding("no", _join(failed), max(finding.certainty for finding in failed))
    if unclear or not findings:
        return Finding("unclear", _join(unclear) or "nothing is required")
    return Finding("yes", _join(findings), min(finding.certainty for finding in findings))


def _join(findings: Sequence[Finding]) -> str:
    return "; ".join(dict.fromkeys(finding.evidence for finding in findings))
