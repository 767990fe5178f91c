"""Intervals for a proportion."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

# Two-sided 95 %: the 0.975 quantile of the standard normal distribution.
Z95: Final = 1.959963984540054


class Interval(NamedTuple):
    """A closed interval, both ends in [0, 1]."""

    low: float
    high: float


def wilson(successes: int, n: int, *, z: float = Z95) -> Interval | None:
    """Return the Wilson score interval of `successes` out of `n`; None when n is 0.

    (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n), E. B. Wilson 1927. Unlike p ± z·se it keeps
    its coverage for small n and near 0 and 1. Raises ValueError unless 0 <= successes <= n.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes out of {n}")
    if n == 0:
        return None
    p = successes / n
    centre = p + z * z / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # At the ends the bound is exactly 0 or 1; floating point would miss it by an ulp.
    low = 0.0 if successes == 0 else (centre - half) / scale
    high = 1.0 if successes == n else (centre + half) / scale
    return Interval(low, high)
