"""Run scores reduce epochs per scene, then average scenes, and say what they rest on."""

from __future__ import annotations

import itertools
import json
import math
import random
from typing import Any

import pytest

from grader_service.scoring import Metric, Score, ScoreCard, score_run


def card(scene: str, epoch: int, **values: Any) -> ScoreCard:
    scores = {name: Score(value) for name, value in values.items()}
    return ScoreCard(scene, epoch, "0" * 64, scores, dict.fromkeys(scores))


CARDS = [
    card("a", 0, operator=True, length=10),
    card("a", 1, operator=False, length=20),
    card("b", 0, operator=None, length=30),
    card("b", 1, operator=True, length=50),
    card("c", 0, operator=None, length=60),
    card("c", 1, operator=None, length=60),
]


def test_epochs_are_reduced_before_scenes_are_averaged() -> None:
    run = score_run(CARDS)
    assert run.reduced == {
        "a": {"operator": 0.5, "length": 15.0},
        "b": {"operator": 1.0, "length": 40.0},
        "c": {"operator": None, "length": 60.0},
    }
    assert run.metrics["operator"] == Metric(
        value=0.75, scenes=3, scenes_with_value=2, trials=6, trials_abstained=3
    )
    assert run.metrics["length"].value == pytest.approx(115 / 3)
    assert run.errors == ()


def test_the_order_of_cards_does_not_matter() -> None:
    cards = [card("a", epoch, x=value) for epoch, value in enumerate([math.nan, 1.0, 2.0, 0.1])]
    first = repr(score_run(cards, reducer="median"))
    for order in itertools.permutations(cards):
        assert repr(score_run(order, reducer="median")) == first
    shuffled = random.Random(1).sample(CARDS, len(CARDS))
    assert score_run(shuffled) == score_run(CARDS)


def test_a_scene_that_cannot_be_reduced_is_left_out_and_told() -> None:
    run = score_run(CARDS, reducer="pass_at_2")
    assert run.reduced["a"] == {"operator": 1.0, "length": 1.0}
    assert "operator" not in run.reduced["b"]
    assert run.metrics["operator"] == Metric(1.0, 2, 1, 6, 3)
    told = "scene 'b': reducer 'pass_at_2' failed for scorer 'operator': "
    assert run.errors == (told + "pass_at_2 needs at least 2 epochs, got 1",)


def test_a_metric_of_abstentions_only_has_no_value() -> None:
    assert score_run([card("a", 0, vlm=None)]).metrics == {"vlm": Metric(None, 1, 0, 1, 1)}
    assert score_run([]).metrics == {}


def test_dialect_060_knows_no_abstention() -> None:
    run = score_run([card("a", 0, vlm=None), card("b", 0, vlm=True)], dialect="0.60")
    assert run.metrics["vlm"].value == 1.0
    assert len(run.errors) == 1


def test_run_scores_are_plain_json() -> None:
    data = json.loads(json.dumps(score_run(CARDS).to_dict()))
    assert data["metrics"]["operator"]["trials_abstained"] == 3
