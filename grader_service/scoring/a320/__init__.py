"""Procedure compliance of A320 cockpit runs: records in, ScoreCard out; no simulator needed."""

from grader_service.scoring.a320.aggregate import Aggregator, aggregate
from grader_service.scoring.a320.card import ScoreCard
from grader_service.scoring.a320.explain import explain, printable
from grader_service.scoring.a320.score import judge_bundle, score_trajectory

__all__ = [
    "Aggregator",
    "ScoreCard",
    "aggregate",
    "explain",
    "judge_bundle",
    "printable",
    "score_trajectory",
]
