"""The grader `operator`: a person at a terminal says whether a trial succeeded."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from grader_service.graders import live
from grader_service.graders.trial import Trial, has_definitive, new_verdict
from grader_service.judging.rubric import Rubric
from grader_service.records.saved import PHASES
from grader_service.records.verdict import Decision, Verdict, effective_verdict
from grader_service.scoring.a320 import judge_bundle, printable

QUESTION: Final = "did it succeed? [y/n/partial/skip] (partial counts as failure) "
NOTE: Final = "note, or Enter for none: "
_ANSWERS: Final = {"y": "y", "yes": "y", "n": "n", "no": "n", "partial": "partial", "skip": "skip"}


@dataclass
class Person:
    """Asks at the terminal. A model's verdict is hidden, so that it is no anchor.

    `ask` reads one line after a prompt and raises EOFError where nobody can answer.
    """

    reviewer: str
    rubric: Any = None
    show_verdict: bool = False
    ask: Callable[[str], str] = input
    say: Callable[[str], None] = print

    name = "operator"
    kinds = frozenset({"robot", "a320"})

    def grade(self, record: Any, scene: Any) -> None:
        """Write the answer onto a live record; where nobody answers it stays as it is."""
        live.grade(self, record, scene)

    def has_graded(self, verdicts: Sequence[Verdict]) -> bool:
        """Say whether a person has spoken; what a model said leaves the person free to."""
        return has_definitive(verdicts) or any(one.source == "human" for one in verdicts)

    def verdict(self, trial: Trial) -> Verdict | None:
        """Show a trial and ask about it; None for skip. Raises EOFError, RubricError."""
        for line in self._shown(trial):
            self.say(printable(line))
        answer = self._answer()
        if answer == "skip":
            return None
        note = ""
        with suppress(EOFError):
            note = self.ask(NOTE).strip()
        if answer == "partial":
            note = f"partial: {note}" if note else "partial"
        decision = Decision.graded("success" if answer == "y" else "failure")
        return new_verdict("human", decision, note=note or None, by=self.reviewer)

    def _answer(self) -> str:
        while True:
            said = self.ask(QUESTION).strip().lower()
            if said in _ANSWERS:
                return _ANSWERS[said]
            self.say(f"{printable(said)!r} is none of y, n, partial and skip")

    def _shown(self, trial: Trial) -> Iterator[str]:
        yield f"trial {trial.name}"
        yield from _field("task", trial.instruction()[0])
        yield from _field("ended", _ending(trial))
        yield from _criteria(trial.rubric(self.rubric))
        yield from _evidence(trial)
        counts = effective_verdict(trial.verdicts)
        if counts is not None and self.show_verdict:
            said = counts.verdict or f"{counts.outcome}, {counts.reason}"
            note = f": {counts.note}" if counts.note else ""
            yield from _field("verdict so far", f"{said} by {counts.source}{note}")


def whoever_this_is() -> str:
    """Return the name of the user at this terminal."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # An account without a name, as containers have them.
        return "operator"


def _field(name: str, text: str) -> Iterator[str]:
    first, *rest = text.strip().splitlines() or [""]
    yield f"  {name}: {first}"
    yield from (f"    {line}" for line in rest)


def _ending(trial: Trial) -> str:
    if trial.scene is None:
        bundle = judge_bundle(trial.record) or {}
        return str(bundle.get("end_reason") or "not known")
    if trial.record.terminated:
        return f"by itself ({trial.record.termination_reason})"
    if trial.record.truncated:
        return f"cut off ({trial.record.termination_reason})"
    return "not known"


def _criteria(rubric: Rubric) -> Iterator[str]:
    yield from _field(f"rubric {rubric.id}", rubric.expectation)
    if not rubric.holistic:
        for criterion in rubric.criteria:
            optional = "" if criterion.required else " (not required)"
            yield f"    {criterion.id}{optional}: {' '.join(criterion.text.split())}"


def _evidence(trial: Trial) -> Iterator[str]:
    if trial.scene is None:
        report = (judge_bundle(trial.record) or {}).get("agent_report") or {}
        for part, text in report.items():
            yield from _field(f"agent's {part}", str(text))
        if trial.folder is not None:
            yield f"  trajectory: {trial.folder / 'trajectory.jsonl'}"
    elif not trial.frames:
        yield "  frames: none"
    elif trial.folder is not None:
        for ref in sorted(trial.frames, key=lambda ref: (PHASES.index(ref.phase), ref.camera)):
            path = trial.folder / trial.frame_paths.get(ref.sha256, f"frames/{ref.sha256}")
            yield f"  {ref.phase} frame, camera {ref.camera}: {path}"
