"""A configuration that no request could carry is refused before anything is sent."""

from __future__ import annotations

import pytest

from grader_service.errors import SetupError
from grader_service.providers.base import Kind, ProviderConfig


def test_an_api_key_never_shows_in_a_repr() -> None:
    assert "sk-secret" not in repr(ProviderConfig("openai", "m", api_key="sk-secret"))


@pytest.mark.parametrize("key", ["sk-1\n", "sk 1", "schlüssel"])
def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(SetupError, match="no header can carry") as caught:
        ProviderConfig("openai", "m", api_key=key)
    assert key not in str(caught.value)


def test_a_vendor_is_not_asked_without_a_key_but_another_endpoint_is() -> None:
    with pytest.raises(SetupError, match="needs an API key"):
        ProviderConfig("anthropic", "m")
    assert ProviderConfig("openai", "m", base_url="http://127.0.0.1:8000/v1").api_key == ""


@pytest.mark.parametrize(
    "url",
    ["", "host/v1", "ftp://host/v1", "http://", "http://me:pw@host/v1", "http://host:99999/v1"],
)
def test_a_base_url_that_is_no_address_of_an_api_is_refused(url: str) -> None:
    with pytest.raises(SetupError, match="base_url"):
        ProviderConfig("openai", "m", base_url=url)


def test_an_unknown_kind_is_refused_with_the_kinds_that_there_are() -> None:
    kind: Kind = "gemini"  # type: ignore[assignment]
    with pytest.raises(SetupError, match="openai-responses"):
        ProviderConfig(kind, "m", api_key="k")


@pytest.mark.parametrize(
    ("kind", "given", "sent"),
    [
        ("openai", "http://h/v1/", "http://h/v1"),
        ("openai-responses", "http://h/v1", "http://h/v1"),
        ("anthropic", "http://h/v1", "http://h"),
        ("anthropic", "http://h/proxy", "http://h/proxy"),
    ],
)
def test_every_kind_takes_the_same_base_url(kind: Kind, given: str, sent: str) -> None:
    assert ProviderConfig(kind, "m", base_url=given).url == sent
