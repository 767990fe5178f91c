"""The scalar of an A320 run: its weights, its penalties and how floats are stored.

Every number below is from the scoring document of the A320 procedure benchmark, which ranks runs
by end state and procedure together, halves the score per action against the procedure, and gives
nothing for a dangerous one.
"""

from __future__ import annotations

from typing import Final

END_STATE_WEIGHT: Final = 0.4
COVERAGE_WEIGHT: Final = 0.4
ORDER_WEIGHT: Final = 0.2
# Without two matched actions to compare, order is no evidence: its weight goes to coverage.
COVERAGE_WEIGHT_WITHOUT_ORDER: Final = 0.6
ANTI_PROCEDURE_FACTOR: Final = 0.5
EXTRANEOUS_PENALTY: Final = 0.05
EXTRANEOUS_CAP: Final = 5

_STORED_DIGITS: Final = 12


def base(end_state: float, coverage: float, order: float | None) -> float:
    """Return the weighted sum of end state, coverage and order, all in [0, 1]."""
    if order is None:
        return END_STATE_WEIGHT * end_state + COVERAGE_WEIGHT_WITHOUT_ORDER * coverage
    return END_STATE_WEIGHT * end_state + COVERAGE_WEIGHT * coverage + ORDER_WEIGHT * order


def safety(dangerous: int, anti_procedure: int) -> float:
    """Return the factor for forbidden commands, counted by occurrence."""
    return 0.0 if dangerous else ANTI_PROCEDURE_FACTOR**anti_procedure


def tidy(extraneous: int) -> float:
    """Return the factor for commands that the scenario doesn't ask for."""
    return 1 - EXTRANEOUS_PENALTY * min(extraneous, EXTRANEOUS_CAP)


def stored(value: float) -> float:
    """Return `value` as cards and aggregate rows hold it: 12 digits, no negative zero."""
    return round(value, _STORED_DIGITS) + 0.0
