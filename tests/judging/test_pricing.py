"""Prices: exact where they are known, and nothing at all where they are not."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader_service.judging.image_tokens import image_tokens
from grader_service.judging.pricing import PriceList, TokenPrice, plain_usd
from grader_service.providers.base import Answer, Kind, ProviderConfig
from grader_service.records.canonical import canonical_json

# Dollars for a thousand verdicts of two frames, 900 tokens of text and 350 written, by the price
# lists of November 2026.
THOUSAND_VERDICTS = {
    "claude-haiku-5-5": (0.32, 0.38, 0.50),
    "claude-sonnet-5-5": (6.36, 7.65, 10.08),
    "claude-opus-5-5": (12.73, 15.30, 20.17),
    "gpt-6-luna": (0.31, 0.37, 0.49),
    "gpt-6.1-terra": (3.11, 3.69, 4.86),
    "gpt-6-sol": (6.22, 7.38, 9.72),
    "gpt-6-astra": (31.12, 36.88, 48.58),
}
SIZES = ((512, 384), (768, 576), (1280, 720))
FREE = TokenPrice(Decimal(0), Decimal(0))
SOME = {"input_tokens": 1000, "output_tokens": 100}


def prices(
    model: str = "gpt-6-luna",
    *,
    kind: Kind | None = None,
    base_url: str | None = None,
    stated: TokenPrice | None = None,
    stub: bool = False,
) -> PriceList:
    kind = kind or ("anthropic" if model.startswith("claude") else "openai")
    provider = ProviderConfig(kind=kind, model=model, base_url=base_url, api_key="k")
    return PriceList(provider, stated, stub)


def answer(
    usage: dict[str, int] | None = None, *, model: str | None = None, body: Any = None
) -> Answer:
    return Answer("openai.chat", body or {}, "text", model, None, usage=usage)


def usd(cost: Any) -> Decimal:
    assert cost is not None
    return Decimal(cost.usd)


@pytest.mark.parametrize("model", THOUSAND_VERDICTS)
def test_a_thousand_verdicts_cost_what_the_price_lists_say_to_half_a_cent(model: str) -> None:
    for size, expected in zip(SIZES, THOUSAND_VERDICTS[model], strict=True):
        frame = image_tokens(model, *size)
        assert frame is not None
        cost = prices(model).of_call({"input_tokens": 900 + 2 * frame, "output_tokens": 350})
        assert abs(1000 * usd(cost) - Decimal(str(expected))) <= Decimal("0.005")


def test_a_cost_names_its_price_list_with_its_version_and_the_model_that_it_found() -> None:
    cost = prices().of_answers([answer(SOME, model="gpt-6-luna-2026-10-01")])
    assert cost is not None
    assert cost.to_dict().keys() == {"usd", "source", "model"}
    assert cost.source.startswith("genai-prices 0.")
    assert cost.model == "gpt-6-luna"
    assert cost.to_dict()["usd"] == "0.00015"


@pytest.mark.parametrize("model", ["gpt-6.2-sol", "m", "moderation", "whisper-1"])
def test_a_model_without_a_known_price_for_tokens_costs_nothing_known_and_never_zero(
    model: str,
) -> None:
    assert prices(model).of_call(SOME) is None
    assert model in prices(model).why_unknown()


@pytest.mark.parametrize(
    ("kind", "url"),
    [
        ("openai", "http://127.0.0.1:8000/v1"),
        ("openai", "https://openrouter.ai/api/v1"),
        ("openai", "https://eu.api.openai.com/v1"),
        ("openai", "https://api.openai.com.example/v1"),
        ("openai", "https://api.anthropic.com/v1"),
        ("openai-responses", "http://localhost:8000/v1"),
        ("anthropic", "https://proxy.example/v1"),
    ],
)
def test_an_address_that_is_not_the_vendors_own_has_no_price(kind: Kind, url: str) -> None:
    model = "claude-haiku-5-5" if kind == "anthropic" else "gpt-6-luna"
    asked = prices(model, kind=kind, base_url=url)
    assert asked.of_call(SOME) is None
    assert "not the vendor's own" in asked.why_unknown()


@pytest.mark.parametrize(
    ("kind", "url"),
    [
        ("openai", "https://api.openai.com/v1/"),
        ("openai-responses", "https://API.openai.com/v1"),
        ("anthropic", "https://api.anthropic.com/v1"),
    ],
)
def test_the_vendors_address_written_out_has_the_vendors_price(kind: Kind, url: str) -> None:
    model = "claude-haiku-5-5" if kind == "anthropic" else "gpt-6-luna"
    written_out = prices(model, kind=kind, base_url=url).of_call(SOME)
    assert written_out == prices(model, kind=kind).of_call(SOME)
    assert written_out is not None


def test_a_stated_price_counts_anywhere_and_beats_the_list() -> None:
    stated = TokenPrice(Decimal("0.5"), Decimal(2))
    for base_url in (None, "http://127.0.0.1:8000/v1"):
        cost = prices(base_url=base_url, stated=stated).of_call(SOME)
        assert cost is not None
        assert cost.to_dict() == {"usd": "0.0007", "source": "settings", "model": "gpt-6-luna"}


def test_a_stated_price_of_zero_is_a_price() -> None:
    cost = prices("qwen3-vl", base_url="http://127.0.0.1:8000/v1", stated=FREE).of_call(SOME)
    assert cost is not None
    assert cost.to_dict()["usd"] == "0"


def test_a_stub_judge_has_no_price_even_where_one_is_stated() -> None:
    assert prices(stated=FREE, stub=True).of_call(SOME) is None
    assert "stub" in prices(stated=FREE, stub=True).why_unknown()


def test_cached_tokens_are_among_the_input_and_take_their_own_price() -> None:
    # $2 for input, $0.10 from the cache, $2.50 into it, $10 for output, each for a million.
    usage = {
        "input_tokens": 1000,
        "cached_tokens": 400,
        "cache_write_tokens": 100,
        "output_tokens": 10,
    }
    cost = prices("claude-sonnet-5-5").of_call(usage)
    assert usd(cost) == Decimal(500 * 2 + 400 * Decimal("0.1") + 100 * Decimal("2.5") + 10 * 10) / (
        10**6
    )


def test_reasoning_tokens_are_among_the_output_and_are_not_paid_twice() -> None:
    assert prices().of_call(SOME | {"reasoning_tokens": 90}) == prices().of_call(SOME)


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        {"input_tokens": 10},
        {"output_tokens": 10},
        {"input_tokens": 10, "cached_tokens": 11, "output_tokens": 1},
        {"input_tokens": 10**30, "output_tokens": 1},
    ],
)
def test_counts_that_are_missing_or_can_not_be_true_have_no_price(
    usage: dict[str, int] | None,
) -> None:
    assert prices().of_call(usage) is None


def test_each_call_is_priced_by_itself_since_prices_have_steps_by_size() -> None:
    half = {"input_tokens": 90_000, "output_tokens": 100}
    whole = {name: 2 * count for name, count in half.items()}
    haiku = prices("claude-haiku-5-5")
    assert usd(haiku.of_answers([answer(half), answer(half)])) == 2 * usd(haiku.of_call(half))
    assert usd(haiku.of_call(whole)) > 2 * usd(haiku.of_call(half))


def test_the_model_that_answered_is_priced_not_the_one_that_was_asked() -> None:
    cost = prices("gpt-6-luna").of_answers([answer(SOME, model="gpt-6-sol")])
    assert usd(cost) == usd(prices("gpt-6-sol").of_call(SOME))
    assert prices("gpt-6-luna").of_answers([answer(SOME, model="gpt-6-unheard-of")]) is None


def test_a_call_that_was_served_faster_for_more_money_is_priced_so() -> None:
    usual = answer(SOME, body={"service_tier": "default"})
    faster = answer(SOME, body={"service_tier": "priority"})
    model = prices("gpt-4o")
    assert usd(model.of_answers([usual])) == usd(model.of_call(SOME))
    assert usd(model.of_answers([faster])) > usd(model.of_answers([usual]))


def test_one_call_of_unknown_price_leaves_the_sum_unknown() -> None:
    assert prices().of_answers([answer(SOME), answer(None)]) is None
    assert prices().of_answers([]) is None


@given(st.decimals(min_value=0, max_value=10**6, places=12))
def test_an_amount_is_plain_text_to_the_nano_dollar(amount: Decimal) -> None:
    text = plain_usd(amount)
    assert abs(Decimal(text) - amount) <= Decimal("5e-10")
    assert set(text) <= set("0123456789.")
    assert plain_usd(Decimal(text)) == text


@given(
    st.lists(
        st.fixed_dictionaries(
            {"input_tokens": st.integers(0, 10**6), "output_tokens": st.integers(0, 10**5)}
        ),
        min_size=1,
        max_size=3,
    )
)
def test_calls_cost_the_sum_of_each_and_a_receipt_holds_it_in_canonical_json(
    usages: list[dict[str, int]],
) -> None:
    luna = prices()
    cost = luna.of_answers([answer(usage) for usage in usages])
    assert usd(cost) == sum(usd(luna.of_call(usage)) for usage in usages)
    assert cost is not None
    assert f'"usd":"{plain_usd(cost.usd)}"' in canonical_json(cost.to_dict())


def test_a_process_that_asks_no_vendor_never_loads_the_price_lists() -> None:
    program = (
        "import sys\n"
        "import grader_service.judging.judge\n"
        "from grader_service.judging.pricing import PriceList\n"
        "from grader_service.providers.base import ProviderConfig\n"
        "config = ProviderConfig(kind='openai', model='m', base_url='http://127.0.0.1:1/v1')\n"
        "assert PriceList(config).of_call({'input_tokens': 1, 'output_tokens': 1}) is None\n"
        "assert 'genai_prices' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
