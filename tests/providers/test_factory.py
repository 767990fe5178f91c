from __future__ import annotations

import pytest

from grader_service.providers import build_provider
from grader_service.providers.base import Kind, ProviderConfig, Wire


@pytest.mark.parametrize(
    ("kind", "wire"),
    [
        ("openai", "openai.chat"),
        ("openai-responses", "openai.responses"),
        ("anthropic", "anthropic.messages"),
    ],
)
def test_each_kind_speaks_its_wire(kind: Kind, wire: Wire) -> None:
    assert build_provider(ProviderConfig(kind, "m", api_key="k")).wire == wire
