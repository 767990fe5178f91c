"""OpenAI's two wires, as OpenAI and the many servers that speak them answer."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any, ClassVar, Final

from grader_service.providers.sdk import EFFORT_NAMED, SdkProvider

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx2

    from grader_service.providers.base import Ask, Image, Wire

SCHEMA_NAME: Final = "verdict"


class _OpenAI(SdkProvider):
    package = "openai"
    request_id_header = "x-request-id"

    def _client(self, http: httpx2.Client) -> Any:
        import openai

        return openai.OpenAI(
            api_key=self._key, base_url=self.config.url, max_retries=0, http_client=http
        )

    def _auth(self, key: str) -> Mapping[str, str]:
        return {"authorization": f"Bearer {key}"}

    def _sdk_error(self) -> type[Exception]:
        import openai

        return openai.APIError

    def _constants(self) -> dict[str, Any]:
        return {"detail": self.config.detail}


class OpenAIChat(_OpenAI):
    """Chat completions."""

    wire: ClassVar[Wire] = "openai.chat"
    droppable: ClassVar[Mapping[str, re.Pattern[str]]] = {
        "max_completion_tokens": re.compile(r"max_completion_tokens"),
        "max_tokens": re.compile(r"max_tokens"),
        "reasoning_effort": EFFORT_NAMED,
    }
    usage_paths: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "input_tokens": ("prompt_tokens",),
        "output_tokens": ("completion_tokens",),
        "cached_tokens": ("prompt_tokens_details", "cached_tokens"),
        "cache_write_tokens": ("prompt_tokens_details", "cache_write_tokens"),
        "reasoning_tokens": ("completion_tokens_details", "reasoning_tokens"),
    }

    def _resource(self, client: Any) -> Any:
        return client.chat.completions

    def _messages(self, ask: Ask) -> dict[str, Any]:
        content = [
            {"type": "text", "text": part}
            if isinstance(part, str)
            else {
                "type": "image_url",
                "image_url": {"url": _data_uri(part), "detail": self.config.detail},
            }
            for part in ask.parts
        ]
        return {
            "messages": [
                {"role": "system", "content": ask.system},
                {"role": "user", "content": content},
            ]
        }

    def _parameters(self, ask: Ask) -> dict[str, Any]:
        swapped = "max_completion_tokens" in self._refused
        parameters: dict[str, Any] = {
            "max_tokens" if swapped else "max_completion_tokens": ask.max_tokens
        }
        if self.config.effort is not None:
            parameters["reasoning_effort"] = self.config.effort
        return parameters

    def _nest(self, ask: Ask, offered: Mapping[str, Any]) -> dict[str, Any]:
        if ask.rung == "text":
            return dict(offered)
        form: dict[str, Any] = {"type": ask.rung}
        if ask.rung == "json_schema":
            form["json_schema"] = {"name": SCHEMA_NAME, "strict": True, "schema": ask.schema}
        return {**offered, "response_format": form}


class OpenAIResponses(_OpenAI):
    """Responses, without keeping anything at the vendor."""

    wire: ClassVar[Wire] = "openai.responses"
    droppable: ClassVar[Mapping[str, re.Pattern[str]]] = {
        "max_output_tokens": re.compile(r"max_output_tokens"),
        "reasoning_effort": EFFORT_NAMED,
        "store": re.compile(r"\bstore\b"),
    }
    usage_paths: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "input_tokens": ("input_tokens",),
        "output_tokens": ("output_tokens",),
        "cached_tokens": ("input_tokens_details", "cached_tokens"),
        "cache_write_tokens": ("input_tokens_details", "cache_write_tokens"),
        "reasoning_tokens": ("output_tokens_details", "reasoning_tokens"),
    }

    def _resource(self, client: Any) -> Any:
        return client.responses

    def _messages(self, ask: Ask) -> dict[str, Any]:
        content = [
            {"type": "input_text", "text": part}
            if isinstance(part, str)
            else {
                "type": "input_image",
                "image_url": _data_uri(part),
                "detail": self.config.detail,
            }
            for part in ask.parts
        ]
        return {"instructions": ask.system, "input": [{"role": "user", "content": content}]}

    def _parameters(self, ask: Ask) -> dict[str, Any]:
        parameters: dict[str, Any] = {"max_output_tokens": ask.max_tokens, "store": False}
        if self.config.effort is not None:
            parameters["reasoning_effort"] = self.config.effort
        return parameters

    def _nest(self, ask: Ask, offered: Mapping[str, Any]) -> dict[str, Any]:
        request = dict(offered)
        if "reasoning_effort" in request:
            request["reasoning"] = {"effort": request.pop("reasoning_effort")}
        if ask.rung != "text":
            form: dict[str, Any] = {"type": ask.rung}
            if ask.rung == "json_schema":
                form |= {"name": SCHEMA_NAME, "strict": True, "schema": ask.schema}
            request["text"] = {"format": form}
        return request


def _data_uri(image: Image) -> str:
    return f"data:{image.media_type};base64,{base64.b64encode(image.data).decode('ascii')}"
