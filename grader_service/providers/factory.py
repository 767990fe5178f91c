"""From a configuration to a provider; the one place that knows which adapter speaks which wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grader_service.providers.base import Provider, ProviderConfig


def build_provider(config: ProviderConfig) -> Provider:
    """Return the provider of `config`. Sends nothing and does not load the SDK; `warm` does.

    Raises SetupError when the SDK is not installed.
    """
    if config.kind == "anthropic":
        from grader_service.providers.anthropic_sdk import AnthropicMessages

        return AnthropicMessages(config)
    from grader_service.providers.openai_sdk import OpenAIChat, OpenAIResponses

    return OpenAIResponses(config) if config.kind == "openai-responses" else OpenAIChat(config)
