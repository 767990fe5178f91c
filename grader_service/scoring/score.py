"""Scores, and what makes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from grader_service.records.trial import Target, TrialRecord

ScoreValue = bool | int | float | str | None
# What `inspect_robots` makes of the value None: "newest" lets a scorer abstain, 0.60.0 fails on it.
Dialect = Literal["newest", "0.60"]


@dataclass(frozen=True)
class Score:
    """What a scorer says of one record. The value None abstains."""

    value: ScoreValue
    explanation: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Scorer(Protocol):
    """A pure function of a record and its scene's target.

    A scorer may have a `version`, a string that changes when its results may.
    """

    @property
    def name(self) -> str: ...

    def __call__(self, record: TrialRecord, target: Target | None) -> Score: ...


def check_dialect(dialect: str) -> None:
    """Raise ValueError for a dialect that there is not."""
    if dialect not in ("newest", "0.60"):
        raise ValueError(f"unknown dialect {dialect!r}; known: 'newest', '0.60'")


def value_to_float(value: ScoreValue, *, dialect: Dialect = "newest") -> float | None:
    """Return a score's value as a number for means over scenes.

    A string that is no number counts 0.0. None stays None, in dialect 0.60 it is a TypeError.
    """
    check_dialect(dialect)
    if value is None and dialect == "newest":
        return None
    try:
        return float(value)  # type: ignore[arg-type]  # None is the TypeError promised
    except ValueError:
        return 0.0
