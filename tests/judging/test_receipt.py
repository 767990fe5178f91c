"""What a receipt says of tokens and cost: all of its calls, or nothing."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from grader_service.judging.evidence import Evidence
from grader_service.judging.judge import Judge, JudgeConfig
from grader_service.judging.pricing import TokenPrice
from grader_service.judging.receipt import Case
from grader_service.judging.rubric import library_rubric
from grader_service.providers.base import ProviderConfig
from grader_service.providers.stub import StubModel
from grader_service.records.canonical import canonical_bytes
from tests.judging.conftest import JudgeOf

CASE = Case("trial-1", "d" * 64, 0, library_rubric("robot/place-in-goal"))
# A dollar for each input token and none for the output, so that a cost reads as a count.
DOLLAR = TokenPrice(Decimal(10**6), Decimal(0))


def test_a_receipt_holds_the_cost_of_its_call(
    judge_of: JudgeOf, model: StubModel, trial: list[Evidence]
) -> None:
    judge = judge_of(stub=False, price=DOLLAR)
    receipt = judge.judge_frames(CASE, instruction="Go.", frames=trial).receipt
    tokens = receipt["usage"]["input_tokens"]
    assert receipt["cost"] == {"usd": str(tokens), "source": "settings", "model": "m"}
    assert json.loads(canonical_bytes(receipt)) == receipt


def test_a_repair_is_paid_for_too(
    judge_of: JudgeOf, model: StubModel, trial: list[Evidence]
) -> None:
    model.script([{"match": {}, "replies": [{"fault": "malformed_json"}, {"verdict": "success"}]}])
    judge = judge_of(stub=False, price=DOLLAR)
    receipt = judge.judge_frames(CASE, instruction="Go.", frames=trial).receipt
    [vote] = receipt["votes"]
    assert 0 < vote["usage"]["input_tokens"] < receipt["usage"]["input_tokens"]
    assert receipt["cost"]["usd"] == str(receipt["usage"]["input_tokens"])


def test_the_vendors_price_list_prices_what_the_vendors_model_answered(
    judge_of: JudgeOf, model: StubModel, trial: list[Evidence]
) -> None:
    vendor = ProviderConfig(kind="openai", model="gpt-6-luna", api_key="k")
    # Set up for the vendor, answered by the stub.
    provider = judge_of(name="gpt-6-luna").provider
    judge = Judge(JudgeConfig("j", vendor), provider, b"secret")
    receipt = judge.judge_frames(CASE, instruction="Go.", frames=trial).receipt
    usage = receipt["usage"]
    expected = usage["input_tokens"] * Decimal("0.1") + usage["output_tokens"] * Decimal("0.5")
    assert Decimal(receipt["cost"]["usd"]) == expected / 10**6
    assert receipt["cost"]["source"].startswith("genai-prices ")


@pytest.mark.parametrize(
    "replies",
    [
        [{"fault": "bad_body"}, {"fault": "bad_body"}],
        [{"fault": "bad_body"}, {"verdict": "success"}],
        [{"fault": "malformed_json"}, {"fault": "bad_body"}],
        [{"fault": "no_usage"}],
    ],
)
def test_an_answer_that_does_not_tell_leaves_tokens_and_cost_unknown(
    judge_of: JudgeOf, model: StubModel, trial: list[Evidence], replies: list[dict[str, str]]
) -> None:
    model.script([{"match": {}, "replies": replies}])
    judge = judge_of(stub=False, price=DOLLAR)
    receipt = judge.judge_frames(CASE, instruction="Go.", frames=trial).receipt
    assert len(model.log) == len(replies)
    assert receipt["usage"] is None
    assert receipt["cost"] is None


def test_a_verdict_without_a_call_has_no_cost(judge_of: JudgeOf, trial: list[Evidence]) -> None:
    firsts = [frame for frame in trial if frame.phase == "first"]
    judge = judge_of(stub=False, price=DOLLAR)
    receipt = judge.judge_frames(CASE, instruction="Go.", frames=firsts).receipt
    assert receipt["outcome"]["reason"] == "evidence_missing"
    assert receipt["cost"] is None


def test_a_price_changes_no_judges_identity(judge_of: JudgeOf) -> None:
    assert judge_of(price=DOLLAR).digest == judge_of().digest
