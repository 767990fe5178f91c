"""ScoreCard of an A320 run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from grader_service.records.canonical import canonical_bytes, digest
from grader_service.scoring.a320.bundle import Evidence, build_bundle

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grader_service.scoring.a320.command import Command
    from grader_service.scoring.a320.signals import Signals

SCHEMA: Final = "scorecard/1"
KIND: Final = "a320"
VECTOR: Final = (
    "coverage",
    "order",
    "end_state",
    "all_passed",
    "safety_dangerous",
    "safety_anti_procedure",
    "extraneous",
)

Status = Literal["scored", "provider_error", "invalid"]


@dataclass(frozen=True, slots=True)
class ScoreCard:
    """The scores of one trajectory: a vector of seven components and one scalar in [0, 1].

    The vector is None as a whole where set-up crashed before there was a scenario; otherwise only
    `order` (no two matched actions to compare), `end_state` and `all_passed` (not judged) may be.
    `scalar` is None exactly when `end_state` is. `matches` gives per required action the index of
    its command. Floats are rounded to 12 digits.
    """

    run_id: str | None
    scenario_id: str
    model: str
    status: Status
    reason: str | None
    coverage: float | None = None
    order: float | None = None
    end_state: float | None = None
    all_passed: bool | None = None
    safety_dangerous: int | None = None
    safety_anti_procedure: int | None = None
    extraneous: int | None = None
    scalar: float | None = None
    matches: tuple[int | None, ...] = ()
    commands: tuple[Command, ...] = ()
    signals: Signals | None = None
    warnings: tuple[str, ...] = ()
    judgement: Mapping[str, str | None] | None = None
    evidence: Evidence | None = field(default=None, repr=False, compare=False)

    @property
    def classes(self) -> tuple[str, ...]:
        """One string per effective command, as in `extraneous:repeat_of_required`."""
        return tuple(command.label for command in self.commands)

    @property
    def vector(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in VECTOR}

    def judge_bundle(self) -> dict[str, Any] | None:
        """Return what an LLM judge may see, newly built, or None without a scenario."""
        if self.evidence is None:
            return None
        commands = [command.to_dict() for command in self.commands]
        return build_bundle(self.evidence, commands, self.reason, self.vector)

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "kind": KIND,
            "run_id": self.run_id,
            "scenario_id": self.scenario_id,
            "model": self.model,
            "status": self.status,
            "reason": self.reason,
            **self.vector,
            "scalar": self.scalar,
            "classes": list(self.classes),
            "matches": list(self.matches),
            "commands": [command.to_dict() for command in self.commands],
            "signals": None if self.signals is None else self.signals.to_dict(),
            "judge_bundle": self.judge_bundle(),
            "warnings": list(self.warnings),
            "judgement": None if self.judgement is None else dict(self.judgement),
        }

    def canonical(self) -> bytes:
        """Return the canonical JSON bytes: the same in every process and on every machine."""
        return canonical_bytes(self.to_dict())

    @property
    def digest(self) -> str:
        """The sha256 of the canonical bytes."""
        return digest(self.canonical())
