"""ScoreCard of a robot trial."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from grader_service.errors import AutograderError, UsageError
from grader_service.records.canonical import canonical_bytes, digest
from grader_service.records.judged import apply_verdict
from grader_service.records.saved import SavedTrial
from grader_service.records.trial import Target, TrialRecord
from grader_service.records.verdict import Verdict
from grader_service.scoring.robot import (
    episode_length,
    min_distance_to_goal,
    operator_scorer,
    success_at_end,
)
from grader_service.scoring.score import Score, Scorer

SCHEMA: Final = "scorecard/1"
KIND: Final = "robot"


class ScorerError(AutograderError):
    """A scorer failed on a record, or returned what no ScoreCard can hold."""

    slug = "scorer-failed"

    def __init__(self, scorer: str, problem: str) -> None:
        super().__init__(f"scorer {scorer!r} {problem}", fix="mend the scorer, or leave it out")
        self.scorer = scorer


@dataclass(frozen=True, slots=True)
class ScoreCard:
    """The scores of one robot trial by scorer, and the judgement that was on its record.

    `record_digest` is that of the record as submitted, before any verdict; `versions` are those of
    the scorers, None for a scorer that has none.
    """

    scene_id: str
    epoch: int
    record_digest: str
    scores: Mapping[str, Score]
    versions: Mapping[str, str | None]
    judgement: Mapping[str, str | None] | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "kind": KIND,
            "scene_id": self.scene_id,
            "epoch": self.epoch,
            "record_digest": self.record_digest,
            "scores": {
                name: {
                    "value": score.value,
                    "explanation": score.explanation,
                    "metadata": dict(score.metadata),
                    "version": self.versions[name],
                }
                for name, score in self.scores.items()
            },
            "judgement": None if self.judgement is None else dict(self.judgement),
        }

    def canonical(self) -> bytes:
        """Return the canonical JSON bytes: the same in every process and on every machine."""
        return canonical_bytes(self.to_dict())

    @property
    def digest(self) -> str:
        """The sha256 of the canonical bytes."""
        return digest(self.canonical())


def default_scorers() -> list[Scorer]:
    """Return the scorers that every record is scored with when none are named."""
    return [success_at_end(), episode_length(), min_distance_to_goal(), operator_scorer()]


def robot_card(saved: SavedTrial, verdict: Verdict | None, scorers: Iterable[Scorer]) -> ScoreCard:
    """Return the ScoreCard of a saved trial with `verdict` written on its record.

    Raises ScorerError, RecordError for a record whose columns are malformed, and UsageError when
    two scorers have the same name.
    """
    record = apply_verdict(saved.record, verdict)
    scores: dict[str, Score] = {}
    versions: dict[str, str | None] = {}
    for scorer in scorers:
        if scorer.name in scores:
            raise UsageError(
                f"two scorers are named {scorer.name!r}",
                fix="make one of them with another name=...",
            )
        scores[scorer.name] = _score(scorer, record, saved.scene.target)
        versions[scorer.name] = getattr(scorer, "version", None)
    return ScoreCard(
        scene_id=record.scene_id,
        epoch=record.epoch,
        record_digest=saved.digest,
        scores=scores,
        versions=versions,
        judgement=None if verdict is None else verdict.judgement(),
    )


def _score(scorer: Scorer, record: TrialRecord, target: Target | None) -> Score:
    try:
        score = scorer(record, target)
        value = _plain(score.value)
        metadata = _plain(score.metadata)
    except AutograderError:
        raise
    except Exception as error:
        raise ScorerError(scorer.name, f"failed: {type(error).__name__}: {error}") from error
    if isinstance(value, list | dict):
        raise ScorerError(scorer.name, f"scored a {type(score.value).__name__}, not one value")
    if not isinstance(score.explanation, str | None) or not isinstance(metadata, dict):
        raise ScorerError(scorer.name, "explained its score with something else than text")
    return Score(value, score.explanation, metadata)


def _plain(value: Any) -> Any:
    """Return a value of JSON types, numpy's own turned into Python's. Raises TypeError."""
    if isinstance(value, np.generic | np.ndarray):
        return _plain(value.tolist())
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(item) for key, item in value.items()}
    raise TypeError(f"a {type(value).__name__} can't be written as JSON")
