"""What an endpoint refuses is learnt once, on every wire, and the receipt says what it took."""

from __future__ import annotations

from typing import Any, Final

import pytest

from grader_service.judging.evidence import Evidence
from grader_service.judging.judge import Judge
from grader_service.judging.receipt import Case
from grader_service.judging.rubric import library_rubric
from grader_service.providers.stub import StubModel
from tests.judging.conftest import JudgeOf, Kind

CASE: Final = Case("trial-1", "d" * 64, 0, library_rubric("robot/place-in-goal"))
WIRES: Final[tuple[Kind, ...]] = ("openai", "openai-responses", "anthropic")
# How a refusal names what it does not take: a field of its own, prose, or FastAPI's location.
HOW: Final = ("param", "message", "detail;status=422")

# By wire: the name that is refused, the calls of the first trial, and what is accepted then.
LIMIT: Final = {"openai": "max_completion_tokens", "openai-responses": "max_output_tokens"}
EFFORT: Final = {
    "openai": "reasoning_effort",
    "openai-responses": "reasoning.effort",
    "anthropic": "output_config.effort",
}


def ask_twice(judge: Judge, model: StubModel, trial: list[Evidence]) -> tuple[int, int, Any]:
    """Return the calls of a first and of a second trial, and the judge in the second receipt."""
    calls = []
    for number in (1, 2):
        case = Case(f"trial-{number}", "d" * 64, 0, CASE.rubric)
        before = len(model.log)
        judged = judge.judge_frames(case, instruction="Place it.", frames=trial)
        assert judged.decision.outcome in ("graded", "abstained")
        assert judged.receipt["votes"] == []
        calls.append(len(model.log) - before)
    return calls[0], calls[1], judged.receipt["judge"]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", LIMIT)
def test_a_refused_limit_of_tokens_is_learnt_once(
    judge_of: JudgeOf, model: StubModel, trial: list[Evidence], kind: Kind, how: str
) -> None:
    judge = judge_of(kind=kind, name=f"stub:reject:{LIMIT[kind]};as={how}")
    first, second, receipt = ask_twice(judge, model, trial)
    assert (first, second) == (2, 1)
    limits = {name: value for name, value in receipt["parameters"].items() if "tokens" in name}
    assert limits == ({"max_tokens": 4096} if kind == "openai" else {})
    assert receipt["rung"] == "json_schema"


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", WIRES)
def test_a_refused_effort_is_learnt_once(
    judge_of: JudgeOf, model: StubModel, trial: list[Evidence], kind: Kind, how: str
) -> None:
    judge = judge_of(kind=kind, name=f"stub:reject:{EFFORT[kind]};as={how}", effort="low")
    first, second, receipt = ask_twice(judge, model, trial)
    assert (first, second) == (2, 1)
    assert "low" not in receipt["parameters"].values()
    assert receipt["rung"] == "json_schema"


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", WIRES)
def test_an_endpoint_without_schemas_is_asked_for_an_object_where_its_wire_has_that(
    judge_of: JudgeOf, model: StubModel, trial: list[Evidence], kind: Kind, how: str
) -> None:
    judge = judge_of(kind=kind, name=f"stub:reject:json_schema;as={how}")
    first, second, receipt = ask_twice(judge, model, trial)
    assert (first, second) == (2, 1)
    assert receipt["rung"] == ("text" if kind == "anthropic" else "json_object")
    assert receipt["parameters"]["response_format"] == receipt["rung"]
    assert model.log[-1]["form"] == receipt["rung"]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", WIRES)
def test_an_endpoint_that_takes_no_form_of_answer_is_asked_for_a_line(
    judge_of: JudgeOf, model: StubModel, trial: list[Evidence], kind: Kind, how: str
) -> None:
    judge = judge_of(kind=kind, name=f"stub:reject:response_format;as={how}")
    first, second, receipt = ask_twice(judge, model, trial)
    assert (first, second) == (2 if kind == "anthropic" else 3, 1)
    assert receipt["rung"] == receipt["parameters"]["response_format"] == "text"
    assert "GRADE: abstain" in model.log[-1]["texts"][-1]
    assert "GRADE: abstain" not in model.log[0]["texts"][-1]


@pytest.mark.parametrize("kind", WIRES)
def test_an_endpoint_that_takes_hardly_anything_is_learnt_in_one_trial(
    judge_of: JudgeOf, model: StubModel, trial: list[Evidence], kind: Kind
) -> None:
    refused = [EFFORT[kind], "response_format"]
    refused += {"openai-responses": ["store"]}.get(kind, [])
    if kind in LIMIT:
        refused.append(LIMIT[kind])
    judge = judge_of(kind=kind, name=f"stub:reject:{'+'.join(refused)}", effort="low")
    first, second, receipt = ask_twice(judge, model, trial)
    rungs = 1 if kind == "anthropic" else 2
    assert (first, second) == (len(refused) - 1 + rungs + 1, 1)
    assert receipt["rung"] == "text"
    assert set(model.log[-1]["parameters"]) <= {"max_tokens", "stream"}


@pytest.mark.parametrize("kind", WIRES)
def test_what_an_endpoint_accepts_is_in_the_receipt_and_nothing_else_was_sent(
    judge_of: JudgeOf, model: StubModel, trial: list[Evidence], kind: Kind
) -> None:
    first, second, receipt = ask_twice(judge_of(kind=kind, effort="low"), model, trial)
    assert (first, second) == (1, 1)
    assert receipt["parameters"]["response_format"] == receipt["rung"] == "json_schema"
    assert "low" in receipt["parameters"].values()
    sent = set(model.log[-1]["parameters"])
    assert not sent & {"temperature", "top_p", "top_k", "seed", "logprobs", "n", "stop"}
    limit = next(count for name, count in receipt["parameters"].items() if "tokens" in name)
    assert limit == 4096
    assert receipt["model_answered"] == "m"


def test_what_an_endpoint_cannot_do_without_is_not_dropped(
    judge_of: JudgeOf, model: StubModel, trial: list[Evidence]
) -> None:
    judge = judge_of(kind="anthropic", name="stub:reject:max_tokens")
    judged = judge.judge_frames(CASE, instruction="Place it.", frames=trial)
    assert judged.decision.reason == "provider_rejected"
    assert len(model.log) == 1


@pytest.mark.parametrize("kind", WIRES)
def test_a_server_that_ignores_the_form_is_read_all_the_same(
    judge_of: JudgeOf, model: StubModel, trial: list[Evidence], kind: Kind
) -> None:
    model.script([{"match": {}, "replies": [{"text": "It lies there.\nGRADE: success"}]}])
    judged = judge_of(kind=kind).judge_frames(CASE, instruction="Place it.", frames=trial)
    assert judged.decision.verdict == "success"
    assert judged.decision.findings == ()
    assert judged.receipt["judge"]["rung"] == "json_schema"
