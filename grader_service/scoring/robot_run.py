"""Scores of a run: each scene's epochs reduced to one value, then the mean over scenes."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from grader_service.scoring.card import ScoreCard
from grader_service.scoring.reducers import reduce_scores
from grader_service.scoring.score import Dialect, Score, value_to_float


@dataclass(frozen=True, slots=True)
class Metric:
    """A scorer's mean over the scenes that have a value, with what it rests on.

    `value` is None when no scene has one. `scenes` were scored, `scenes_with_value` of them count;
    `trials` were scored, in `trials_abstained` of them the scorer abstained.
    """

    value: float | None
    scenes: int
    scenes_with_value: int
    trials: int
    trials_abstained: int


@dataclass(frozen=True, slots=True)
class RunScores:
    """`reduced[scene][scorer]`, `metrics[scorer]`, and in words what could not be reduced."""

    reduced: Mapping[str, Mapping[str, float | None]]
    metrics: Mapping[str, Metric]
    errors: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def score_run(
    cards: Iterable[ScoreCard], *, reducer: str = "mean", dialect: Dialect = "newest"
) -> RunScores:
    """Return the scores of a run from the cards of its trials, in any order.

    `reducer` is a name that `get_reducer` knows, such as that of the run's Epochs. The caller
    leaves out trials that did not run to their end (`status` of the record): half a trial is no
    data. As in `inspect_robots`, a reducer that fails, such as pass_at_5 of 2 epochs, takes its
    scene out of that metric and is told of.
    """
    by_scorer: dict[str, dict[str, list[Score]]] = {}
    for card in sorted(cards, key=lambda card: (card.scene_id, card.epoch)):
        for name, score in card.scores.items():
            by_scorer.setdefault(name, {}).setdefault(card.scene_id, []).append(score)
    reduced: dict[str, dict[str, float | None]] = {}
    metrics: dict[str, Metric] = {}
    errors: list[str] = []
    for name, scenes in sorted(by_scorer.items()):
        values: list[float | None] = []
        for scene_id, scores in scenes.items():
            try:
                score = reduce_scores(reducer, scores, dialect=dialect)
                value = value_to_float(score.value, dialect=dialect)
            except (ValueError, TypeError, ArithmeticError) as error:
                errors.append(
                    f"scene {scene_id!r}: reducer {reducer!r} failed for scorer {name!r}: {error}"
                )
                continue
            reduced.setdefault(scene_id, {})[name] = value
            values.append(value)
        metrics[name] = _metric(values, [score for s in scenes.values() for score in s])
    return RunScores(reduced, metrics, tuple(errors))


def _metric(values: list[float | None], scores: list[Score]) -> Metric:
    voted = [value for value in values if value is not None]
    return Metric(
        value=statistics.mean(voted) if voted else None,
        scenes=len(values),
        scenes_with_value=len(voted),
        trials=len(scores),
        trials_abstained=sum(score.value is None for score in scores),
    )
