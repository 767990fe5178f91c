"""Anthropic's messages wire."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any, ClassVar

from grader_service.providers.base import RungRefusedError
from grader_service.providers.sdk import EFFORT_NAMED, SdkProvider

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx2

    from grader_service.providers.base import Ask, Part, Rung, Wire


class AnthropicMessages(SdkProvider):
    """Messages. There is no mode for a JSON object without a schema."""

    wire: ClassVar[Wire] = "anthropic.messages"
    package = "anthropic"
    request_id_header = "request-id"
    droppable: ClassVar[Mapping[str, re.Pattern[str]]] = {
        # An endpoint that knows no output_config at all is asked without effort first.
        "effort": re.compile(
            EFFORT_NAMED.pattern + r"|output_config(?!\.format)", EFFORT_NAMED.flags
        ),
    }
    usage_paths: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "input_tokens": ("input_tokens",),
        "output_tokens": ("output_tokens",),
        "cached_tokens": ("cache_read_input_tokens",),
        "cache_write_tokens": ("cache_creation_input_tokens",),
        "reasoning_tokens": ("output_tokens_details", "thinking_tokens"),
    }

    def _client(self, http: httpx2.Client) -> Any:
        import anthropic

        return anthropic.Anthropic(
            api_key=self._key, base_url=self.config.url, max_retries=0, http_client=http
        )

    def _auth(self, key: str) -> Mapping[str, str]:
        return {"x-api-key": key}

    def _sdk_error(self) -> type[Exception]:
        import anthropic

        return anthropic.APIError

    def _resource(self, client: Any) -> Any:
        return client.messages

    def _check_rung(self, rung: Rung) -> None:
        if rung == "json_object":
            raise RungRefusedError(rung, "this wire has no mode for JSON without a schema")
        super()._check_rung(rung)

    def _messages(self, ask: Ask) -> dict[str, Any]:
        content = [_block(part) for part in ask.parts]
        return {"system": ask.system, "messages": [{"role": "user", "content": content}]}

    def _parameters(self, ask: Ask) -> dict[str, Any]:
        parameters: dict[str, Any] = {"max_tokens": ask.max_tokens}
        if self.config.effort is not None:
            parameters["effort"] = self.config.effort
        return parameters

    def _nest(self, ask: Ask, offered: Mapping[str, Any]) -> dict[str, Any]:
        request = dict(offered)
        output = {"effort": request.pop("effort")} if "effort" in request else {}
        if ask.rung == "json_schema":
            output["format"] = {"type": "json_schema", "schema": ask.schema}
        return {**request, "output_config": output} if output else request

    def _usage(self, usage: Any) -> dict[str, int] | None:
        found = super()._usage(usage)
        if found is not None and "input_tokens" in found:
            # This vendor counts cached input apart.
            found["input_tokens"] += found.get("cached_tokens", 0)
            found["input_tokens"] += found.get("cache_write_tokens", 0)
        return found


def _block(part: Part) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    data = base64.b64encode(part.data).decode("ascii")
    source = {"type": "base64", "media_type": part.media_type, "data": data}
    return {"type": "image", "source": source}
