"""A ScoreCard is the same bytes everywhere, and an error of a scorer names it."""

from __future__ import annotations

import json
import math
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grader_service.errors import RecordError, UsageError
from grader_service.records.canonical import digest
from grader_service.records.saved import load_trial, save_trial
from grader_service.records.verdict import Verdict
from grader_service.scoring import (
    Score,
    ScorerError,
    default_scorers,
    robot_card,
    success_at_end,
)
from tests.records.examples import PLAIN_SCENE, record_of, rollout, through_disk

PINNED = Path(__file__).parent.parent / "golden" / "robot"

FAILURE = Verdict(
    id="v1",
    source="human",
    outcome="graded",
    verdict="failure",
    reason=None,
    at="2031-01-01T00:00:00Z",
    note="dropped",
    by="reviewer",
)


class Returning:
    """A scorer that returns what it was given, or raises it."""

    def __init__(self, result: Any, name: str = "mine") -> None:
        self.name = name
        self.result = result

    def __call__(self, record: Any, target: Any) -> Any:  # noqa: ARG002  # the signature
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_other_processes_with_other_hash_seeds_give_the_pinned_bytes(seed: str) -> None:
    printed = subprocess.run(
        [sys.executable, PINNED / "pin.py", "--digests"],
        env={**os.environ, "PYTHONHASHSEED": seed},
        check=True,
        capture_output=True,
    ).stdout
    pinned = {path.name: digest(path.read_bytes()) for path in PINNED.glob("*.json")}
    assert json.loads(printed) == pinned
    assert len(pinned) == 5


def test_a_card_says_what_was_scored_and_judged_and_nothing_of_who_and_when() -> None:
    saved = through_disk(record_of({"info": {"distance": 0.5}}))
    card = robot_card(saved, FAILURE, default_scorers())
    assert card.to_dict() == {
        "schema": "scorecard/1",
        "kind": "robot",
        "scene_id": "pad-01",
        "epoch": 0,
        "record_digest": saved.digest,
        "scores": {
            "success_at_end": {
                "value": False,
                "explanation": "did not succeed",
                "metadata": {},
                "version": "1",
            },
            "episode_length": {
                "value": 1,
                "explanation": None,
                "metadata": {},
                "version": "1",
            },
            "min_distance_to_goal": {
                "value": 0.5,
                "explanation": None,
                "metadata": {},
                "version": "1",
            },
            "operator": {
                "value": False,
                "explanation": "operator verdict: 'failure'",
                "metadata": {},
                "version": "1",
            },
        },
        "judgement": {
            "outcome": "graded",
            "verdict": "failure",
            "reason": None,
            "source": "human",
        },
    }
    assert json.loads(card.canonical()) == card.to_dict()
    assert card.digest == digest(card.canonical())


def test_a_verdict_changes_neither_the_record_digest_nor_what_does_not_read_it() -> None:
    saved = through_disk(rollout(30))
    without, judged = (robot_card(saved, v, default_scorers()) for v in (None, FAILURE))
    assert without.judgement is None
    assert without.record_digest == judged.record_digest == saved.digest
    assert without.scores["success_at_end"] == judged.scores["success_at_end"]
    assert saved.record.operator_judgement is None


def test_each_kind_of_default_score_is_there_for_every_record() -> None:
    names = ["success_at_end", "episode_length", "min_distance_to_goal", "operator"]
    for record in (record_of(), rollout(3)):
        assert list(robot_card(through_disk(record), FAILURE, default_scorers()).scores) == names


def test_numbers_that_json_lacks_become_strings_and_numpy_ones_plain() -> None:
    score = Score(
        np.float32("inf"),  # type: ignore[arg-type]  # scorers do return numpy's numbers
        metadata={"nan": math.nan, "n": np.int64(3), "grid": np.eye(2), "pair": (1, np.bool_(0))},
    )
    card = robot_card(through_disk(record_of({})), None, [Returning(score)])
    written = json.loads(card.canonical())["scores"]["mine"]
    assert written == {
        "value": "Infinity",
        "explanation": None,
        "metadata": {"nan": "NaN", "n": 3, "grid": [[1, 0], [0, 1]], "pair": [1, False]},
        "version": None,
    }
    assert type(card.scores["mine"].value) is float


@pytest.mark.parametrize(
    "result",
    [
        ZeroDivisionError("no steps"),
        KeyError("joint"),
        None,
        0.5,
        Score([1, 2]),  # type: ignore[arg-type]
        Score({"a": 1}),  # type: ignore[arg-type]
        Score(np.zeros(2)),  # type: ignore[arg-type]
        Score(1j),  # type: ignore[arg-type]
        Score(1, metadata={"path": Path("a")}),
        Score(1, metadata={1: 2}),  # type: ignore[dict-item]
        Score(1, metadata=5),  # type: ignore[arg-type]
        Score(1, explanation=5),  # type: ignore[arg-type]
    ],
)
def test_a_scorer_that_fails_is_named_with_what_it_did(result: Any) -> None:
    saved = through_disk(record_of({}))
    with pytest.raises(ScorerError, match="scorer 'mine'") as caught:
        robot_card(saved, None, [success_at_end(), Returning(result)])
    assert caught.value.exit_code == 1
    assert caught.value.scorer == "mine"
    assert caught.value.fix
    if isinstance(result, Exception):
        assert repr(result.args[0]).strip("'") in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301  # our own bytes


def test_a_damaged_column_is_told_as_such_not_as_a_failure_of_the_scorer() -> None:
    files = save_trial(rollout(300), PLAIN_SCENE)
    path = max(files, key=lambda path: len(files[path]))
    files[path] = files[path][:-1]
    with pytest.raises(RecordError, match=r"columns/"):
        robot_card(load_trial(files.__getitem__), None, default_scorers())


def test_two_scorers_of_one_name_are_refused() -> None:
    saved = through_disk(record_of({}))
    with pytest.raises(UsageError, match="two scorers are named 'success_at_end'"):
        robot_card(saved, None, [success_at_end(), success_at_end()])
    card = robot_card(saved, None, [success_at_end(), success_at_end(name="again")])
    assert list(card.scores) == ["success_at_end", "again"]
