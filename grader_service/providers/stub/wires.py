"""The three wires as a server sees them: requests read into one form, answers written from one."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from grader_service.providers.base import Rung, Wire

PATHS: Final[Mapping[str, Wire]] = {
    "/v1/chat/completions": "openai.chat",
    "/v1/responses": "openai.responses",
    "/v1/messages": "anthropic.messages",
}

Stop = Literal["end", "length", "context", "refusal", "content_filter"]


class WireError(ValueError):
    """A request that no server of this wire would take."""


@dataclass(frozen=True, slots=True)
class SentImage:
    """An image in base64, `detail` being what OpenAI's wires ask to look at it with."""

    media_type: str
    encoded: str = field(repr=False)
    detail: str | None = None

    @property
    def data(self) -> bytes:
        return base64.b64decode(self.encoded, validate=True)

    @property
    def sha256(self) -> str:
        return _digest_and_size(self.encoded)[0]

    @property
    def size(self) -> int:
        """The bytes of the file."""
        return _digest_and_size(self.encoded)[1]


# Decoding base64 is what costs most of a call, and the same frames come again and again.
@lru_cache(maxsize=256)
def _digest_and_size(encoded: str) -> tuple[str, int]:
    try:
        data = base64.b64decode(encoded, validate=True)
    except ValueError as error:
        raise WireError(f"an image is no base64: {error}") from None
    return hashlib.sha256(data).hexdigest(), len(data)


@dataclass(frozen=True, slots=True)
class Request:
    """One call: the system text, the user turn in order, and the form of answer it asks for.

    `parameters` is the rest of the body. `names` has every name by which a server could refuse
    part of it, nested ones with dots.
    """

    wire: Wire
    model: str
    system: str
    parts: tuple[str | SentImage, ...]
    form: Rung
    schema: Mapping[str, Any]
    parameters: Mapping[str, Any]
    names: frozenset[str]

    @property
    def text(self) -> str:
        return "\n".join(part for part in self.parts if isinstance(part, str))


@dataclass(frozen=True, slots=True)
class Said:
    """What a model wrote, and how it came to stop. `text` None means no content at all."""

    text: str | None
    stop: Stop = "end"
    thinking: str | None = None
    usage: bool = True


def read_request(wire: Wire, body: Any) -> Request:
    """Return the request that a JSON body makes. Raises WireError."""
    if not isinstance(body, dict) or not isinstance(body.get("model"), str):
        raise WireError("the body is no object with a model")
    if body.get("stream"):
        raise WireError("this server does not stream")
    try:
        system, parts = _turns(wire, body)
        form = _form(wire, body)
    except (KeyError, TypeError, AttributeError) as error:
        raise WireError(f"the messages can't be read: {error!r}") from None
    content = {"messages", "input", "instructions", "system", "model"}
    parameters = {name: value for name, value in body.items() if name not in content}
    kind = form.get("type", "text")
    schema = form.get("schema") or form.get("json_schema", {}).get("schema") or {}
    names = {*_dotted(body)} | ({kind, "response_format"} if kind != "text" else set())
    return Request(
        wire, body["model"], system, tuple(parts), kind, schema, parameters, frozenset(names)
    )


def _turns(wire: Wire, body: Mapping[str, Any]) -> tuple[str, list[str | SentImage]]:
    if wire == "openai.responses":
        system, turns = body.get("instructions", ""), body["input"]
    elif wire == "anthropic.messages":
        system, turns = body.get("system", ""), body["messages"]
    else:
        turns = body["messages"]
        system = "\n".join(
            text for turn in turns if turn["role"] == "system" for text in _texts(turn["content"])
        )
    parts = [part for turn in turns if turn["role"] == "user" for part in _content(turn["content"])]
    return "\n".join(_texts(system)), parts


def _texts(content: Any) -> list[str]:
    return [part for part in _content(content) if isinstance(part, str)]


def _content(content: Any) -> Iterator[str | SentImage]:
    if isinstance(content, str):
        yield content
        return
    for block in content:
        if "text" in block["type"]:
            yield block["text"]
        elif block["type"] == "image":
            yield SentImage(block["source"]["media_type"], block["source"]["data"])
        else:
            url = block["image_url"]
            url, detail = (
                (url["url"], url.get("detail"))
                if isinstance(url, dict)
                else (url, block.get("detail"))
            )
            head, _, data = url.partition(";base64,")
            yield SentImage(head.removeprefix("data:"), data, detail)


def _form(wire: Wire, body: Mapping[str, Any]) -> dict[str, Any]:
    if wire == "openai.responses":
        holder, name = body.get("text"), "format"
    elif wire == "anthropic.messages":
        holder, name = body.get("output_config"), "format"
    else:
        holder, name = body, "response_format"
    form = (holder or {}).get(name) or {}
    return dict(form)


def _dotted(value: Mapping[str, Any], depth: int = 2) -> Iterator[str]:
    for name, item in value.items():
        yield name
        if isinstance(item, dict) and depth > 1:
            yield from (f"{name}.{inner}" for inner in _dotted(item, depth - 1))


def write_response(request: Request, said: Said, number: int) -> dict[str, Any]:
    """Return the response object in which `request`'s wire gives what was said."""
    write = {
        "openai.chat": _chat,
        "openai.responses": _responses,
        "anthropic.messages": _messages,
    }[request.wire]
    body = write(said, f"stub-{number}")
    body["model"] = request.model
    if not said.usage:
        del body["usage"]
    else:
        body["usage"] |= _usage(request, said)
    return body


def _usage(request: Request, said: Said) -> dict[str, int]:
    images = sum(isinstance(part, SentImage) for part in request.parts)
    inputs = (len(request.system) + len(request.text)) // 4 + 500 * images
    outputs = (len(said.text or "") + len(said.thinking or "")) // 4
    if request.wire == "openai.chat":
        return {"prompt_tokens": inputs, "completion_tokens": outputs}
    return {"input_tokens": inputs, "output_tokens": outputs}


def _chat(said: Said, id_: str) -> dict[str, Any]:
    refused = said.stop == "refusal"
    message: dict[str, Any] = {
        "role": "assistant",
        "content": None if refused else said.text,
        "refusal": "Stub refusal." if refused else None,
    }
    if said.thinking is not None:
        message["reasoning_content"] = said.thinking
    finish = {"length": "length", "context": "length", "content_filter": "content_filter"}
    choice = {"index": 0, "message": message, "finish_reason": finish.get(said.stop, "stop")}
    return {
        "id": id_,
        "object": "chat.completion",
        "created": 0,
        "choices": [choice],
        "usage": {"prompt_tokens_details": {"cached_tokens": 0}},
    }


def _responses(said: Said, id_: str) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    if said.thinking is not None:
        summary = [{"type": "summary_text", "text": said.thinking}]
        output.append({"type": "reasoning", "id": f"{id_}-r", "summary": summary})
    content: dict[str, Any] | None = None
    if said.stop == "refusal":
        content = {"type": "refusal", "refusal": "Stub refusal."}
    elif said.text is not None:
        content = {"type": "output_text", "text": said.text, "annotations": []}
    if content is not None:
        output.append(
            {
                "type": "message",
                "id": f"{id_}-m",
                "role": "assistant",
                "status": "completed",
                "content": [content],
            }
        )
    cut = {"length": "max_output_tokens", "context": "max_output_tokens"}
    reason = cut.get(said.stop, said.stop)
    incomplete = said.stop in ("length", "context", "content_filter")
    return {
        "id": id_,
        "object": "response",
        "created_at": 0,
        "status": "incomplete" if incomplete else "completed",
        "error": None,
        "incomplete_details": {"reason": reason} if incomplete else None,
        "output": output,
        "usage": {"input_tokens_details": {"cached_tokens": 0}},
    }


def _messages(said: Said, id_: str) -> dict[str, Any]:
    refused = said.stop in ("refusal", "content_filter")
    content: list[dict[str, Any]] = []
    if said.thinking is not None:
        content.append({"type": "thinking", "thinking": said.thinking, "signature": "stub"})
    if said.text and not refused:
        content.append({"type": "text", "text": said.text})
    stops = {"length": "max_tokens", "context": "model_context_window_exceeded"}
    return {
        "id": id_,
        "type": "message",
        "role": "assistant",
        "content": content,
        "stop_reason": "refusal" if refused else stops.get(said.stop, "end_turn"),
        "stop_sequence": None,
        "usage": {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
    }


def error_body(
    wire: Wire, status: int, message: str, *, code: str | None = None, param: str | None = None
) -> dict[str, Any]:
    """Return the error object that goes with `status` on `wire`."""
    if wire == "anthropic.messages":
        error: dict[str, Any] = {
            "type": _ANTHROPIC_TYPES.get(status, "api_error"),
            "message": message,
        }
        if code is not None:
            error["details"] = {"error_code": code}
        return {"type": "error", "error": error}
    kind = "invalid_request_error" if status < 500 else "server_error"  # noqa: PLR2004
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


_ANTHROPIC_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}
