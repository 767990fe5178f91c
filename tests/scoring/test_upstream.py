"""The same inputs through inspect-robots itself, in this process, give the same results."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import inspect_robots
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader_service import scoring
from grader_service.records.trial import Scene, Target, to_upstream
from grader_service.scoring import Score
from tests.records.examples import PLAIN_SCENE, record_of, rollout, thorough, through_disk

# Importing it by name gives the decorator that inspect_robots has under the same name.
upstream = importlib.import_module("inspect_robots.scorer")

numbers = st.one_of(
    st.floats(), st.integers(), st.booleans(), st.sampled_from([math.nan, -0.0, 0.05, 10**400])
)
distances = st.one_of(
    numbers,
    st.none(),
    st.floats().map(str),
    st.text(max_size=4),
    st.sampled_from([" 0.5 ", "1_000", "nan", [], {}, "٣"]),
    st.one_of(st.floats(), st.integers(-9, 9)).map(np.float64),
    st.floats(width=32).map(np.float32),
    st.booleans().map(np.bool_),
    st.integers(0, 255).map(np.uint8),
    st.lists(st.floats(), max_size=2).map(np.array),
)
reasons = st.sampled_from(["success", "failure", "Success", " success", "timeout", None])
flags = st.sampled_from([True, False, 1, 0, np.bool_(1), np.bool_(0)])
results = st.fixed_dictionaries(
    {"terminated": flags, "termination_reason": reasons, "truncated": flags},
    optional={"info": st.dictionaries(st.sampled_from(["distance", "x"]), distances)},
)
words = st.sampled_from(["success", "pass", "yes", "y", "1", "true", "no", "partial", "ok", ""])
judgements = st.one_of(
    st.none(),
    st.text(max_size=4),
    st.builds(
        lambda before, word, change, after: before + change(word) + after,
        st.sampled_from(["", " ", "\t", "\u00a0", "\u200b"]),
        words,
        st.sampled_from([str.upper, str.title, str.lower]),
        st.sampled_from(["", "\n", " "]),
    ),
)
records = st.builds(
    lambda results, judgement, terminated, reason: record_of(
        *results,
        operator_judgement=judgement,
        terminated=terminated,
        termination_reason=reason,
    ),
    st.lists(results, max_size=6),
    judgements,
    st.booleans(),
    reasons,
)
values = st.one_of(
    st.booleans(),
    st.integers(-3, 3),
    st.floats(),
    st.sampled_from([0.0, -0.0, 0.5, 0.49999999999999994, math.nan, math.inf, "1", "a", "nan"]),
    st.floats(width=32).map(np.float32),
    st.text(max_size=2),
    st.just([1]),
)
reducers = st.one_of(
    st.sampled_from(["mean", "median", "max", "min", "mode"]),
    st.integers(1, 9).map("pass_at_{}".format),
)


def outcome(run: Callable[[], Any]) -> tuple[Any, ...]:
    """Return a result to its last bit, or the type of the exception and its own words."""
    try:
        score = run()
    except Exception as error:  # noqa: BLE001  # whatever it is, both must raise it
        return (type(error), str(error))
    return (type(score.value), repr(score.value), score.explanation, dict(score.metadata))


@thorough
@given(records, st.one_of(st.floats(), st.just("0.05")))
def test_scorers_agree_live_and_saved(record: Any, threshold: Any) -> None:
    theirs, _ = to_upstream(record, PLAIN_SCENE)
    saved = through_disk(record).record
    for name, options in [
        ("success_at_end", {}),
        ("episode_length", {}),
        ("min_distance_to_goal", {}),
        ("reached_goal_state", {"threshold": threshold}),
        ("operator_scorer", {}),
    ]:
        expected = outcome(lambda: getattr(upstream, name)(**options)(theirs, None))  # noqa: B023
        scorer = getattr(scoring, name)(**options)
        assert scorer.name == getattr(upstream, name)().name
        assert outcome(lambda: scorer(record, None)) == expected  # noqa: B023
        assert outcome(lambda: scorer(saved, None)) == expected  # noqa: B023


@thorough
@given(reducers, st.lists(values, max_size=8))
def test_reducers_agree(name: str, given_values: list[Any]) -> None:
    theirs = [upstream.Score(value) for value in given_values]
    ours = [Score(value) for value in given_values]
    expected = outcome(lambda: upstream.reduce_scores(name, theirs))
    assert outcome(lambda: scoring.reduce_scores(name, ours)) == expected
    assert outcome(lambda: scoring.reduce_scores(name, ours, dialect="0.60")) == expected


@thorough
@given(st.one_of(st.text(max_size=4), st.text("0123456789 +-_.٣x", max_size=4)))
def test_the_same_reducer_names_are_known(text: str) -> None:
    def known(module: Any, name: str) -> Any:
        try:
            return bool(module.get_reducer(name))
        except ValueError as error:
            return str(error)

    for name in (text, f"pass_at_{text}"):
        assert known(scoring, name) == known(upstream, name)


@thorough
@given(st.one_of(values, distances))
def test_values_become_the_same_numbers(value: Any) -> None:
    def number(module: Any) -> Any:
        try:
            return repr(module.value_to_float(value))
        except Exception as error:  # noqa: BLE001  # whatever it is, both must raise it
            return (type(error), str(error))

    if value is not None:
        assert number(scoring) == number(upstream)


@thorough
@given(judgements)
def test_the_same_words_are_affirmative(text: str | None) -> None:
    assert scoring.is_affirmative_verdict(text) is upstream.is_affirmative_verdict(text)


@thorough
@given(reducers, st.lists(values, max_size=6), st.integers(0, 3))
def test_abstentions_do_not_change_what_the_others_say(
    name: str, given_values: list[Any], abstentions: int
) -> None:
    scores = [Score(value) for value in given_values]
    without = outcome(lambda: scoring.reduce_scores(name, scores))
    mixed = [*scores, *[Score(None)] * abstentions]
    if scores:
        assert outcome(lambda: scoring.reduce_scores(name, mixed)) == without
    elif abstentions:
        assert scoring.reduce_scores(name, mixed) == Score(None)


class ActionSum:
    """A scorer as a user of inspect-robots writes it, with its types."""

    name = "action_sum"

    def __call__(self, record: Any, target: Any) -> Any:
        total = sum(float(np.abs(step.action.data).sum()) for step in record.steps)
        success = record.steps[-1].result.termination_reason == "success"
        seen = [event.kind for event in record.events if event.kind != "step"]
        return upstream.Score(total, f"{success} {seen} {target.spec['on']}", {"unit": "rad"})


@pytest.mark.parametrize("steps", [3, 5000])
def test_a_scorer_written_for_inspect_robots_runs_on_a_saved_record(steps: int) -> None:
    scene = Scene("pad-01", "stack", Target("stacked", {"on": ("a", "b")}))
    record = rollout(steps)
    theirs, their_scene = to_upstream(record, scene)
    saved = through_disk(record, scene)
    expected = outcome(lambda: ActionSum()(theirs, their_scene.target))
    assert outcome(lambda: ActionSum()(saved.record, saved.scene.target)) == expected
    card = scoring.robot_card(saved, None, [ActionSum()])
    assert repr(card.scores["action_sum"].value) == expected[1]


def test_scorers_take_the_place_of_those_of_inspect_robots() -> None:
    for make in (scoring.success_at_end, scoring.operator_scorer, scoring.VLMScorer):
        assert isinstance(make(), upstream.Scorer)
    assert scoring.success_at_end(name="mine").name == "mine"


@pytest.mark.parametrize("policy", ["random", "scripted"])
def test_a_real_rollout_scores_the_same_after_it_was_saved(policy: str, tmp_path: Path) -> None:
    class Saving:
        """A grader that saves each record, as it is when scorers are about to see it."""

        name = "saving"

        def __init__(self) -> None:
            self.trials: list[tuple[Any, Any, Any]] = []

        def grade(self, record: Any, scene: Any) -> None:
            self.trials.append((record, scene, through_disk(record, scene)))

    grader = Saving()
    inspect_robots.eval(
        "cubepick-reach",
        policy=policy,
        embodiment="cubepick",
        grader=grader,
        log_dir=str(tmp_path),
        seed=3,
    )
    assert grader.trials
    for record, scene, saved in grader.trials:
        card = scoring.robot_card(saved, None, scoring.default_scorers())
        for name, score in card.scores.items():
            factory = getattr(upstream, "operator_scorer" if name == "operator" else name)
            assert outcome(lambda: factory()(record, scene.target)) == outcome(lambda: score)  # noqa: B023
