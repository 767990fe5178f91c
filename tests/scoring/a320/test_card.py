"""The card as an object and as bytes."""

from __future__ import annotations

import json
import pickle

import pytest

from grader_service.records.canonical import digest
from grader_service.records.trajectory import MAX_DEPTH, parse_trajectory, with_judgement
from grader_service.scoring.a320 import score_trajectory
from tests.scoring.a320.trajectories import (
    READABLE,
    action,
    block,
    call,
    command,
    final,
    golden,
    meta,
    run,
    to_bytes,
)

HEAD = meta([block(action("a", 0))])
JUDGEMENT = {"outcome": "graded", "verdict": "success", "reason": None, "source": "llm_judge"}
KEYS = {
    "schema",
    "kind",
    "run_id",
    "scenario_id",
    "model",
    "status",
    "reason",
    "coverage",
    "order",
    "end_state",
    "all_passed",
    "safety_dangerous",
    "safety_anti_procedure",
    "extraneous",
    "scalar",
    "classes",
    "matches",
    "commands",
    "signals",
    "judge_bundle",
    "warnings",
    "judgement",
}


def test_every_card_has_the_same_keys() -> None:
    crash = score_trajectory([{"type": "harness_error"}])
    for card in (crash, score_trajectory(run(HEAD))):
        data = card.to_dict()
        assert set(data) == KEYS
        assert (data["schema"], data["kind"]) == ("scorecard/1", "a320")


def test_the_digest_is_of_the_canonical_bytes() -> None:
    card = score_trajectory(run(HEAD))
    assert card.canonical().endswith(b"}\n")
    assert card.digest == digest(card.canonical())


@pytest.mark.parametrize("case", READABLE)
def test_a_judgement_changes_the_judgement_of_a_card_and_nothing_else(case: str) -> None:
    data = golden(case)
    before = score_trajectory(parse_trajectory(data)).to_dict()
    judged = with_judgement(data, {**JUDGEMENT, "receipt": "ab12", "confidence": 0.5})
    after = score_trajectory(parse_trajectory(judged)).to_dict()
    assert before.pop("judgement") is None
    assert after.pop("judgement") == JUDGEMENT
    assert after == before


def test_a_judgement_with_fields_of_other_types_says_nothing_in_them() -> None:
    odd = {"type": "judgement", "outcome": "graded", "verdict": 1, "reason": ["x"]}
    assert score_trajectory([*run(HEAD), odd]).judgement == {
        "outcome": "graded",
        "verdict": None,
        "reason": None,
        "source": None,
    }


def test_values_that_json_can_not_hold_have_one_canonical_form() -> None:
    args = {"big": 10**400, "half": "\ud83d", "nan": float("nan"), "edge": 2**53}
    records = run(HEAD, call("tune", args), command("a\ud800", 0))
    card = json.loads(score_trajectory(records).canonical())
    assert card["judge_bundle"]["not_scored"][0]["args"] == {
        "big": {"$int": "1" + "0" * 400},
        "half": "\ufffd",
        "nan": "NaN",
        "edge": {"$int": "9007199254740992"},
    }
    assert card["commands"][0]["control"] == "a\ufffd"


def test_a_command_shows_its_converted_value() -> None:
    records = run(HEAD, command("a", "-0"), command("a", " 2.50 "), command("a", 2**60))
    values = [each["value"] for each in score_trajectory(records).to_dict()["commands"]]
    assert values == [0.0, 2.5, 2.0**60]
    assert [type(value) for value in values] == [float, float, float]
    assert str(values[0]) == "0.0"


def test_arguments_nested_to_the_limit_still_have_canonical_bytes() -> None:
    depth = MAX_DEPTH - 2  # the record and its args are two levels
    deep = b"[" * depth + b"]" * depth
    data = to_bytes(run(HEAD, call("tune", {"v": "DEEP"}))).replace(b'"DEEP"', deep)
    assert deep in score_trajectory(parse_trajectory(data)).canonical()


def test_a_card_survives_pickling() -> None:
    card = score_trajectory(run(HEAD, command("a", 0), end=final(True)))
    again = pickle.loads(pickle.dumps(card))  # noqa: S301 - made one line above
    assert again == card
    assert again.canonical() == card.canonical()
