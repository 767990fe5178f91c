"""Scores of records: pure functions, the same result in every process.

The names that `inspect_robots` has mean the same here. `scorer` is the decorator that registers a
scorer's factory.
"""

from grader_service.records.canonical import canonical_json
from grader_service.records.judged import is_affirmative_verdict
from grader_service.scoring.a320 import aggregate, score_trajectory
from grader_service.scoring.card import ScoreCard, ScorerError, default_scorers, robot_card
from grader_service.scoring.reducers import (
    ConfigError,
    Epochs,
    get_reducer,
    pass_at_k,
    reduce_scores,
)
from grader_service.scoring.registry import (
    resolve_scorer,
    resolve_scorers,
    scorer,
    scorer_names,
)
from grader_service.scoring.robot import (
    VLMScorer,
    criteria_met,
    episode_length,
    min_distance_to_goal,
    operator_scorer,
    reached_goal_state,
    success_at_end,
    vlm_scorer,
)
from grader_service.scoring.robot_run import Metric, RunScores, score_run
from grader_service.scoring.score import Dialect, Score, Scorer, value_to_float

__all__ = [
    "ConfigError",
    "Dialect",
    "Epochs",
    "Metric",
    "RunScores",
    "Score",
    "ScoreCard",
    "Scorer",
    "ScorerError",
    "VLMScorer",
    "aggregate",
    "canonical_json",
    "criteria_met",
    "default_scorers",
    "episode_length",
    "get_reducer",
    "is_affirmative_verdict",
    "min_distance_to_goal",
    "operator_scorer",
    "pass_at_k",
    "reached_goal_state",
    "reduce_scores",
    "resolve_scorer",
    "resolve_scorers",
    "robot_card",
    "score_run",
    "score_trajectory",
    "scorer",
    "scorer_names",
    "success_at_end",
    "value_to_float",
    "vlm_scorer",
]
