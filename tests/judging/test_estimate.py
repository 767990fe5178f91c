"""Estimates: made of the prompt that would be sent, and of nothing that is not known."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from grader_service.errors import FrameError
from grader_service.judging.estimate import (
    Question,
    bundle_question,
    estimate,
    frames_question,
    sent_size,
)
from grader_service.judging.evidence import Evidence
from grader_service.judging.frames import prepare_frame
from grader_service.judging.judge import JudgeConfig
from grader_service.judging.pricing import TokenPrice
from grader_service.judging.prompt import REPLY_SCHEMA
from grader_service.judging.receipt import Case
from grader_service.judging.rubric import library_rubric
from grader_service.providers.base import ProviderConfig
from grader_service.providers.stub import StubModel
from grader_service.records.canonical import canonical_bytes
from tests.judging.conftest import JudgeOf, Kind, evidence

RUBRIC = library_rubric("robot/place-in-goal")
COCKPIT = library_rubric("a320/procedure-reasoning")
BUNDLE: dict[str, Any] = {"scenario": {"id": "apu"}, "commands": [{"id": "apu_fire_pb"}]}


def judge(model: str = "gpt-6-luna", **changes: Any) -> JudgeConfig:
    kind: Kind = "anthropic" if model.startswith("claude") else "openai"
    return JudgeConfig("j", ProviderConfig(kind=kind, model=model, api_key="k"), **changes)


def test_the_estimated_text_and_images_are_those_that_are_sent(
    judge_of: JudgeOf, model: StubModel, trial: list[Evidence]
) -> None:
    question = frames_question(trial, instruction="Put it there.", rubric=RUBRIC)
    judged = judge_of().judge_frames(
        Case("t", "d", 0, RUBRIC), instruction="Put it there.", frames=trial
    )
    [request] = model.log
    sent = "".join([request["system"], *request["texts"]]).encode()
    assert question is not None
    assert question.text_bytes == len(sent) + len(canonical_bytes(REPLY_SCHEMA))
    pixels = [(frame["width"], frame["height"]) for frame in judged.receipt["frames"]]
    assert list(question.images) == pixels


def test_the_estimated_text_of_a_cockpit_run_is_what_is_sent(
    judge_of: JudgeOf, model: StubModel
) -> None:
    question = bundle_question(BUNDLE, rubric=COCKPIT)
    judge_of().judge_bundle(Case("t", "d", 0, COCKPIT), bundle=BUNDLE)
    [request] = model.log
    sent = "".join([request["system"], *request["texts"]]).encode()
    assert question == Question(len(sent) + len(canonical_bytes(REPLY_SCHEMA)))


@pytest.mark.parametrize("form", ["JPEG", "PNG"])
@pytest.mark.parametrize(
    "size", [(640, 480), (768, 576), (4000, 3000), (1921, 1081), (33, 600), (2000, 101)]
)
def test_the_size_that_is_sent_is_known_from_the_header_to_one_pixel(
    form: str, size: tuple[int, int]
) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", size).save(buffer, form)
    sent = prepare_frame(buffer.getvalue(), long_edge=768)
    width, height = sent_size(*size, 768)
    assert abs(width - sent.width) <= 1
    assert abs(height - sent.height) <= 1


def test_what_ends_without_a_call_is_no_question(trial: list[Evidence]) -> None:
    firsts = [frame for frame in trial if frame.phase == "first"]
    assert frames_question(firsts, instruction="Go.", rubric=RUBRIC) is None
    assert bundle_question(None, rubric=COCKPIT) is None
    assert bundle_question({"commands": [], "agent_report": None}, rubric=COCKPIT) is None
    nothing = estimate(judge(), [None, None])
    assert nothing.to_dict() == {
        "trials": 2,
        "calls": {"min": 0, "max": 0},
        "input_tokens": {"min": 0, "max": 0},
        "output_tokens": {"min": 0, "max": 0},
        "cost": {"min_usd": "0", "max_usd": "0", "source": None},
        "unknown_because": None,
    }


def test_a_frame_that_would_be_refused_is_not_estimated() -> None:
    with pytest.raises(FrameError):
        frames_question([evidence("c", "last", b"GIF?")], instruction="Go.", rubric=RUBRIC)


@pytest.mark.parametrize(
    ("model", "dollars"), [("claude-sonnet-5-5", "7.65"), ("gpt-6-sol", "7.38")]
)
def test_the_least_is_a_typical_answer_at_the_listed_price(model: str, dollars: str) -> None:
    thousand = [Question(4 * 900, ((768, 576), (768, 576)))] * 1000
    usd = estimate(judge(model), thousand).usd
    assert usd is not None
    assert abs(usd[0] - Decimal(dollars)) <= Decimal("0.005")


def test_the_most_is_a_first_answer_that_is_cut_and_a_repair_with_twice_its_budget() -> None:
    stated = TokenPrice(Decimal(1), Decimal(10))
    found = estimate(judge(max_tokens=1000, price=stated), [Question(2 * 500)])
    assert found.to_dict() == {
        "trials": 1,
        "calls": {"min": 1, "max": 2},
        "input_tokens": {"min": 250, "max": 1000},
        "output_tokens": {"min": 350, "max": 3000},
        "cost": {"min_usd": "0.00375", "max_usd": "0.031", "source": "settings"},
        "unknown_because": None,
    }


def test_an_unknown_family_leaves_input_and_cost_of_frames_unknown_but_not_of_text() -> None:
    stated = TokenPrice(Decimal(1), Decimal(1))
    local = judge("qwen3-vl", price=stated)
    frames = estimate(local, [Question(100), Question(100, ((768, 576),))])
    assert (frames.input_tokens, frames.usd) == (None, None)
    assert "image" in str(frames.why_unknown)
    assert estimate(local, [Question(100)]).usd is not None


def test_an_unknown_price_is_said_and_tokens_are_told_all_the_same() -> None:
    found = estimate(judge("gpt-6.2-sol"), [Question(100, ((768, 576),))])
    assert found.input_tokens is not None
    assert found.usd is None
    assert "gpt-6.2-sol" in str(found.why_unknown)


sizes = st.tuples(st.integers(32, 1568), st.integers(80, 640))
questions = st.builds(Question, st.integers(0, 10**5), st.lists(sizes, max_size=4).map(tuple))


@given(st.lists(questions, min_size=1, max_size=5), st.integers(64, 10_000))
def test_the_least_is_never_over_the_most_and_more_trials_never_cost_less(
    asked: list[Question], max_tokens: int
) -> None:
    for model in ("gpt-6-luna", "claude-haiku-5-5"):
        whole = estimate(judge(model, max_tokens=max_tokens), asked)
        part = estimate(judge(model, max_tokens=max_tokens), asked[1:])
        assert whole.usd is not None
        assert part.usd is not None
        assert 0 < whole.usd[0] <= whole.usd[1]
        assert part.usd[0] <= whole.usd[0]
        assert part.usd[1] <= whole.usd[1]
        assert whole.input_tokens is not None
        assert whole.input_tokens.low <= whole.input_tokens.high
