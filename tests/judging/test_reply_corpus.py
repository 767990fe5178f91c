"""Stored replies, each with the one outcome that the grammar gives it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from grader_service.judging.reply import parse_reply
from grader_service.judging.rubric import rubric_from_json

CASES = json.loads(
    (Path(__file__).parents[1] / "data" / "replies" / "cases.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_stored_reply_comes_to_what_is_expected(case: dict[str, Any]) -> None:
    stored = case["input"]
    rubric = None if stored["rubric"] is None else rubric_from_json(stored["rubric"])
    decision = parse_reply(stored["wire"], stored["body"], rubric=rubric, token=stored["token"])
    assert {
        "outcome": decision.outcome,
        "verdict": decision.verdict,
        "reason": decision.reason,
    } == case["expected"], case["why"]
