"""Scorers, reducers and coercions give what inspect-robots 0.60.0 gives, case by case.

The cases and their values were recorded from inspect-robots 0.60.0. Where its successor abstains
instead, a case says so, and the newest dialect must do that.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grader_service.scoring import (
    Dialect,
    Epochs,
    Score,
    Scorer,
    episode_length,
    get_reducer,
    is_affirmative_verdict,
    min_distance_to_goal,
    operator_scorer,
    pass_at_k,
    reached_goal_state,
    reduce_scores,
    success_at_end,
    value_to_float,
)
from tests.records.examples import record_of, through_disk

CASES = [
    case
    for case in json.loads(
        (Path(__file__).parent.parent / "data/parity/scorer_parity_cases.json").read_text("utf-8")
    )
    if "meta" not in case
]
DIALECTS: list[Dialect] = ["0.60", "newest"]


def value_of(data: Any) -> Any:
    """Return what a recorded input stands for."""
    if isinstance(data, list):
        return [value_of(item) for item in data]
    if not isinstance(data, dict):
        return data
    match data:
        case {"$float": text}:
            return float(text)
        case {"$np": [name, value]}:
            return getattr(np, name)(value)
        case {"$arr": values}:
            return np.array(values)
        case {"$pow10": exponent}:
            return 10**exponent
    return {key: value_of(item) for key, item in data.items()}


def scorer_of(case: Any, dialect: Dialect) -> Scorer:
    factories: dict[str, Callable[..., Scorer]] = {
        "success_at_end": success_at_end,
        "episode_length": episode_length,
        "min_distance_to_goal": min_distance_to_goal,
        "reached_goal_state": reached_goal_state,
        "operator": lambda: operator_scorer(dialect=dialect),
    }
    return factories[case["scorer"]](**value_of(case.get("args", {})))


def score(case: Any, dialect: Dialect, *, saved: bool) -> Score:
    fields = value_of(case["input"])
    record = record_of(*fields.pop("steps", []), **fields)
    if saved:
        record = through_disk(record).record
    return scorer_of(case, dialect)(record, None)


def call(case: Any, dialect: Dialect) -> Any:
    """Return what the function of a case gives."""
    given = value_of(case["input"])
    functions: dict[str, Callable[[Any], Any]] = {
        "is_affirmative_verdict": is_affirmative_verdict,
        "value_to_float": lambda value: value_to_float(value, dialect=dialect),
        "get_reducer": lambda name: get_reducer(name, dialect=dialect),
        "pass_at_k": lambda k: pass_at_k(k, dialect=dialect),
        "Epochs": lambda fields: Epochs(**fields).count,
    }
    return functions[case["function"]](given)


def check(case: Any, dialect: Dialect, run: Callable[[], Any]) -> None:
    expected = case["expected"]
    newest = case.get("expected_newest_upstream")
    if newest is not None and dialect == "newest":
        made = run()
        value = made.value if isinstance(made, Score) else made
        assert repr(value) == repr(newest["value"])
        if "explanation" in newest:
            assert made.explanation == newest["explanation"]
    elif isinstance(expected, dict) and "error" in expected:
        with pytest.raises(Exception) as caught:  # noqa: PT011  # its type is what is compared
            run()
        assert type(caught.value).__name__ == expected["error"]
        if "message_from" not in case:
            assert str(caught.value) == expected["match"]
    elif expected == "ok:reducer":
        assert callable(run())
    elif isinstance(expected, dict) and "value" in expected:
        made = run()
        assert type(made.value).__name__ == expected["value_type"]
        assert repr(made.value) == repr(value_of(expected["value"]))
        assert made.explanation == expected["explanation"]
        assert made.metadata == expected["metadata"]
    else:
        assert repr(run()) == repr(value_of(expected))


def named(case: Any) -> str:
    return f"{case.get('scorer') or case.get('reducer') or case['function']}"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("saved", [False, True], ids=["live", "saved"])
@pytest.mark.parametrize("case", [case for case in CASES if "scorer" in case], ids=named)
def test_scorers_give_what_they_give_upstream(case: Any, dialect: Dialect, saved: bool) -> None:
    check(case, dialect, lambda: score(case, dialect, saved=saved))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("case", [case for case in CASES if "reducer" in case], ids=named)
def test_reducers_give_what_they_give_upstream(case: Any, dialect: Dialect) -> None:
    scores = [Score(value_of(value)) for value in case["input"]]
    check(case, dialect, lambda: reduce_scores(case["reducer"], scores, dialect=dialect))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("case", [case for case in CASES if "function" in case], ids=named)
def test_functions_give_what_they_give_upstream(case: Any, dialect: Dialect) -> None:
    check(case, dialect, lambda: call(case, dialect))


def test_no_case_was_left_out() -> None:
    assert len(CASES) == 411
