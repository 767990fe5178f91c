"""What OpenAI's two wires carry, as a server sees it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from grader_service.providers.base import Ask, Image, RungRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from grader_service.providers.base import Kind, Provider
    from grader_service.providers.stub import StubModel

    Connect = Callable[..., Provider]
    MakeAsk = Callable[..., Ask]

BOTH: list[Kind] = ["openai", "openai-responses"]


@pytest.mark.parametrize("kind", BOTH)
def test_texts_and_images_arrive_in_order_and_byte_for_byte(
    kind: Kind, connect: Connect, make_ask: MakeAsk, stub: StubModel
) -> None:
    ask = make_ask()
    answer = connect(kind).ask(ask)
    (entry,) = stub.log
    images = [part for part in ask.parts if isinstance(part, Image)]
    assert entry["system"] == ask.system
    assert entry["texts"] == [part for part in ask.parts if isinstance(part, str)]
    assert [(sent["sha256"], sent["media_type"]) for sent in entry["images"]] == [
        (hashlib.sha256(image.data).hexdigest(), image.media_type) for image in images
    ]
    assert answer.model == entry["model"] == "some-model"
    assert (answer.request_id or "").startswith("req-stub-")
    assert answer.wire == entry["wire"]


def test_chat_asks_for_a_strict_schema_and_sends_no_sampling_parameter(
    connect: Connect, make_ask: MakeAsk, stub: StubModel
) -> None:
    ask = make_ask()
    answer = connect("openai", effort="low").ask(ask)
    schema = {"name": "verdict", "strict": True, "schema": ask.schema}
    assert stub.log[0]["parameters"] == {
        "max_completion_tokens": 4096,
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": schema},
    }
    assert answer.parameters == {
        "max_completion_tokens": 4096,
        "reasoning_effort": "low",
        "response_format": "json_schema",
        "detail": "high",
    }


def test_responses_asks_for_a_strict_schema_and_keeps_nothing_at_the_vendor(
    connect: Connect, make_ask: MakeAsk, stub: StubModel
) -> None:
    ask = make_ask()
    connect("openai-responses", effort="low").ask(ask)
    form = {"type": "json_schema", "name": "verdict", "strict": True, "schema": ask.schema}
    assert stub.log[0]["parameters"] == {
        "max_output_tokens": 4096,
        "store": False,
        "reasoning": {"effort": "low"},
        "text": {"format": form},
    }


@pytest.mark.parametrize("kind", BOTH)
def test_the_weaker_forms_of_answer_send_no_schema(
    kind: Kind, connect: Connect, make_ask: MakeAsk, stub: StubModel
) -> None:
    provider = connect(kind)
    provider.ask(make_ask("json_object"))
    provider.ask(make_ask("text"))
    assert [entry["form"] for entry in stub.log] == ["json_object", "text"]
    assert not any("schema" in str(entry["parameters"]) for entry in stub.log)


@pytest.mark.parametrize("kind", BOTH)
def test_the_detail_of_the_configuration_goes_with_every_image(
    kind: Kind, connect: Connect, make_ask: MakeAsk, stub: StubModel
) -> None:
    connect(kind, detail="original").ask(make_ask())
    assert [image["detail"] for image in stub.log[0]["images"]] == ["original"] * 2


def test_a_server_that_knows_only_the_old_token_limit_is_given_that(
    connect: Connect, make_ask: MakeAsk, stub: StubModel
) -> None:
    provider = connect("openai", fault="reject:max_completion_tokens")
    first, second = provider.ask(make_ask()), provider.ask(make_ask())
    assert first.parameters["max_tokens"] == second.parameters["max_tokens"] == 4096
    assert "max_completion_tokens" not in first.parameters
    assert len(stub.log) == 3


def test_a_server_that_takes_few_parameters_is_learnt_in_one_ask(
    connect: Connect, make_ask: MakeAsk, stub: StubModel
) -> None:
    fault = "reject:max_completion_tokens+max_tokens+reasoning_effort"
    answer = connect("openai", fault=fault, effort="high").ask(make_ask())
    assert answer.parameters == {"response_format": "json_schema", "detail": "high"}
    assert len(stub.log) == 4


def test_a_server_that_refuses_to_be_told_not_to_store_is_asked_without(
    connect: Connect, make_ask: MakeAsk, stub: StubModel
) -> None:
    answer = connect("openai-responses", fault="reject:store").ask(make_ask())
    assert "store" not in answer.parameters
    assert len(stub.log) == 2


def test_a_server_that_takes_json_but_no_schema_keeps_the_middle_rung(
    connect: Connect, make_ask: MakeAsk, stub: StubModel
) -> None:
    provider = connect("openai", fault="reject:json_schema")
    with pytest.raises(RungRefusedError):
        provider.ask(make_ask("json_schema"))
    assert provider.ask(make_ask("json_object")).rung == "json_object"
