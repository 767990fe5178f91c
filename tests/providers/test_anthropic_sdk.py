"""What Anthropic's wire carries, as a server sees it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from grader_service.providers.anthropic_sdk import AnthropicMessages
from grader_service.providers.base import Image, ProviderConfig, RungRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from grader_service.providers.base import Ask, Provider
    from grader_service.providers.stub import StubModel

    Connect = Callable[..., Provider]
    MakeAsk = Callable[..., Ask]


def test_texts_and_images_arrive_in_order_and_byte_for_byte(
    connect: Connect, make_ask: MakeAsk, stub: StubModel
) -> None:
    ask = make_ask()
    answer = connect("anthropic").ask(ask)
    (entry,) = stub.log
    images = [part for part in ask.parts if isinstance(part, Image)]
    assert entry["system"] == ask.system
    assert entry["texts"] == [part for part in ask.parts if isinstance(part, str)]
    assert [(sent["sha256"], sent["media_type"]) for sent in entry["images"]] == [
        (hashlib.sha256(image.data).hexdigest(), image.media_type) for image in images
    ]
    assert entry["headers"]["anthropic-version"]
    assert answer.wire == entry["wire"] == "anthropic.messages"


def test_the_schema_goes_out_as_it_is_and_no_sampling_parameter_does(
    connect: Connect, make_ask: MakeAsk, stub: StubModel
) -> None:
    ask = make_ask()
    answer = connect("anthropic", effort="low").ask(ask)
    form = {"type": "json_schema", "schema": ask.schema}
    assert stub.log[0]["parameters"] == {
        "max_tokens": 4096,
        "output_config": {"effort": "low", "format": form},
    }
    assert answer.parameters == {
        "max_tokens": 4096,
        "effort": "low",
        "response_format": "json_schema",
    }


def test_json_without_a_schema_is_no_form_of_this_wire_and_costs_no_call(
    connect: Connect, make_ask: MakeAsk, stub: StubModel
) -> None:
    with pytest.raises(RungRefusedError):
        connect("anthropic").ask(make_ask("json_object"))
    assert stub.log == []


def test_an_endpoint_without_output_config_ends_at_plain_text(
    connect: Connect, make_ask: MakeAsk, stub: StubModel
) -> None:
    provider = connect("anthropic", fault="reject:output_config", effort="low")
    with pytest.raises(RungRefusedError):
        provider.ask(make_ask("json_schema"))
    assert provider.ask(make_ask("text")).parameters == {
        "max_tokens": 4096,
        "response_format": "text",
    }
    assert len(stub.log) == 3


def test_a_long_answer_may_be_asked_for(connect: Connect, make_ask: MakeAsk) -> None:
    answer = connect("anthropic").ask(make_ask(max_tokens=64_000))
    assert answer.parameters["max_tokens"] == 64_000


def test_input_tokens_include_those_that_were_cached() -> None:
    provider = AnthropicMessages(ProviderConfig("anthropic", "m", api_key="k"))
    usage = {
        "input_tokens": 100,
        "cache_read_input_tokens": 1000,
        "cache_creation_input_tokens": 10,
        "output_tokens": 5,
        "output_tokens_details": {"thinking_tokens": 3},
    }
    assert provider._usage(usage) == {
        "input_tokens": 1110,
        "output_tokens": 5,
        "cached_tokens": 1000,
        "cache_write_tokens": 10,
        "reasoning_tokens": 3,
    }


@pytest.mark.parametrize("usage", [None, [], {}, {"input_tokens": "7"}, {"input_tokens": True}])
def test_token_counts_that_are_none_are_left_out(usage: object) -> None:
    provider = AnthropicMessages(ProviderConfig("anthropic", "m", api_key="k"))
    assert provider._usage(usage) is None
