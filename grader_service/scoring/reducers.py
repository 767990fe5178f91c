"""Reducers: the scores of one scene's epochs as one score."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from grader_service.errors import UsageError
from grader_service.scoring.score import Dialect, Score, ScoreValue, check_dialect

Reducer = Callable[[Sequence[Score]], Score]

_SUCCESS = 0.5


class ConfigError(UsageError):
    """An evaluation is configured wrongly. Its name and its words are those of `inspect_robots`."""

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class Epochs:
    """How often each scene is tried, and the reducer of its scores. Raises ConfigError."""

    count: int = 1
    reducer: str = "mean"

    def __post_init__(self) -> None:
        if not _is_count(self.count):
            raise ConfigError(f"Epochs count must be an integer >= 1, got {self.count!r}")


def get_reducer(name: str, *, dialect: Dialect = "newest") -> Reducer:
    """Return the reducer mean, median, max, min, mode or pass_at_<k>. Raises ValueError.

    In the newest dialect, epochs that abstained are left out, and where all did the scene does.
    """
    if name in _REDUCERS:
        return _leaving_out_abstentions(_REDUCERS[name], dialect)
    if not name.startswith("pass_at_"):
        known = sorted(_REDUCERS)
        raise ValueError(f"unknown epoch reducer {name!r}; known: {known} or 'pass_at_<k>'")
    try:
        return pass_at_k(int(name.removeprefix("pass_at_")), dialect=dialect)
    except ValueError as error:
        raise ValueError(f"invalid pass@k reducer {name!r}: {error}") from None


def reduce_scores(name: str, scores: Sequence[Score], *, dialect: Dialect = "newest") -> Score:
    """Return what the named reducer makes of one scene's scores."""
    return get_reducer(name, dialect=dialect)(scores)


def pass_at_k(k: int, *, dialect: Dialect = "newest") -> Reducer:
    """Return the unbiased estimate of the chance that one of k trials succeeds.

    1 - C(n-c, k) / C(n, k) for c successes (values of at least 0.5) in n epochs: Chen et al.,
    "Evaluating Large Language Models Trained on Code" (2021). It raises ValueError for n < k.
    """
    if not _is_count(k):
        raise ValueError(f"k must be an integer >= 1, got {k!r}")

    def estimate(scores: Sequence[Score]) -> Score:
        epochs = len(scores)
        successes = sum(value >= _SUCCESS for value in _numbers(scores))
        if epochs < k:
            raise ValueError(f"pass_at_{k} needs at least {k} epochs, got {epochs}")
        return Score(1.0 - math.comb(epochs - successes, k) / math.comb(epochs, k))

    return _leaving_out_abstentions(estimate, dialect)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _leaving_out_abstentions(reducer: Reducer, dialect: Dialect) -> Reducer:
    check_dialect(dialect)
    if dialect == "0.60":
        return reducer

    def reduce(scores: Sequence[Score]) -> Score:
        voted = [score for score in scores if score.value is not None]
        return Score(None) if scores and not voted else reducer(voted)

    return reduce


def _numbers(scores: Sequence[Score]) -> Iterator[float]:
    return (_number(score.value) for score in scores)


def _number(value: ScoreValue) -> float:
    try:
        return float(value)  # type: ignore[arg-type]  # None and lists are the TypeError they are
    except ValueError:
        raise TypeError(
            f"cannot numerically reduce non-numeric score value {value!r}; "
            "use a categorical reducer such as 'mode'"
        ) from None


def _mode(scores: Sequence[Score]) -> Score:
    """Return the most frequent value; of several, the one that reads greatest as text."""
    times = Counter(score.value for score in scores)
    return Score(max((score.value for score in scores), key=lambda v: (times[v], str(v))))


_REDUCERS: Mapping[str, Reducer] = {
    "mean": lambda scores: Score(statistics.mean(_numbers(scores))),
    "median": lambda scores: Score(statistics.median(_numbers(scores))),
    "max": lambda scores: Score(max(_numbers(scores))),
    "min": lambda scores: Score(min(_numbers(scores))),
    "mode": _mode,
}
