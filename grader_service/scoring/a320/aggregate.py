"""Rows over many runs: one per scenario and model."""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from grader_service.scoring.a320.formula import stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Scored(Protocol):
    """What a row needs of a card."""

    @property
    def scenario_id(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def scalar(self) -> float | None: ...
    @property
    def coverage(self) -> float | None: ...
    @property
    def order(self) -> float | None: ...
    @property
    def end_state(self) -> float | None: ...
    @property
    def all_passed(self) -> bool | None: ...
    @property
    def safety_dangerous(self) -> int | None: ...


def aggregate(cards: Iterable[Scored], include_errors: bool = False) -> list[dict[str, Any]]:
    """Return one row per (scenario, model), sorted by these.

    Runs of status `scored` make the pool of the means, with `include_errors` those that a provider
    cut short as well; invalid runs never do. Dangerous runs stay in with their 0. Duplicates are
    counted as they come.
    """
    aggregator = Aggregator(include_errors=include_errors)
    for card in cards:
        aggregator.add(card)
    return aggregator.rows()


class Aggregator:
    """Takes cards one by one and keeps a few numbers of each, so that none has to stay in memory.

    Rows don't depend on the order of the cards: sums are exact before they are rounded.
    """

    def __init__(self, *, include_errors: bool = False) -> None:
        self._pool_statuses = {"scored", "provider_error"} if include_errors else {"scored"}
        self._groups: defaultdict[tuple[str, str], _Group] = defaultdict(_Group)

    def add(self, card: Scored) -> None:
        group = self._groups[card.scenario_id, card.model]
        dangerous = bool(card.safety_dangerous)
        group.n += 1
        group.n_provider_error += card.status == "provider_error"
        group.n_invalid += card.status == "invalid"
        group.n_dangerous += dangerous
        if card.scalar is None or card.status not in self._pool_statuses:
            return
        group.pool_passed += card.all_passed is True
        group.pool_dangerous += dangerous
        group.scalar.append(card.scalar)
        for values, value in (
            (group.coverage, card.coverage),
            (group.order, card.order),
            (group.end_state, card.end_state),
        ):
            if value is not None:
                values.append(value)

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"scenario_id": scenario_id, "model": model, **group.row()}
            for (scenario_id, model), group in sorted(
                self._groups.items(), key=lambda item: item[0]
            )
        ]


def _doubles() -> array[float]:
    return array("d")


@dataclass(slots=True)
class _Group:
    n: int = 0
    n_provider_error: int = 0
    n_invalid: int = 0
    n_dangerous: int = 0
    pool_passed: int = 0
    pool_dangerous: int = 0
    scalar: array[float] = field(default_factory=_doubles)
    coverage: array[float] = field(default_factory=_doubles)
    order: array[float] = field(default_factory=_doubles)
    end_state: array[float] = field(default_factory=_doubles)

    def row(self) -> dict[str, Any]:
        n_scored = len(self.scalar)
        return {
            "n": self.n,
            "n_scored": n_scored,
            "n_provider_error": self.n_provider_error,
            "n_invalid": self.n_invalid,
            "n_dangerous": self.n_dangerous,
            "score_mean": _mean(self.scalar),
            "score_std": _sample_std(self.scalar),
            "coverage_mean": _mean(self.coverage),
            "order_mean": _mean(self.order),
            "end_state_mean": _mean(self.end_state),
            "pass_rate": _ratio(self.pool_passed, n_scored),
            "dangerous_rate": _ratio(self.pool_dangerous, n_scored),
            "provider_error_rate": _ratio(self.n_provider_error, self.n),
            "invalid_rate": _ratio(self.n_invalid, self.n),
        }


def _ratio(part: float, whole: int) -> float | None:
    return stored(part / whole) if whole else None


def _mean(values: Sequence[float]) -> float | None:
    return _ratio(math.fsum(values), len(values))


def _sample_std(values: Sequence[float]) -> float | None:
    """Return the standard deviation with n-1: runs are a sample of what the agent may do."""
    if len(values) < 2:  # noqa: PLR2004 - a spread needs two
        return None
    mean = math.fsum(values) / len(values)
    return stored(math.sqrt(math.fsum((x - mean) ** 2 for x in values) / (len(values) - 1)))
