"""From a response object to the text that the model generated as its answer, or why there is none.

The endings of each wire are those that the SDKs of 2026 accept: chat completions, responses and
messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Never, get_args

from grader_service.errors import UsageError
from grader_service.providers.base import Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

WIRES: Final = ("text", *get_args(Wire))

_TRUNCATED: Final = frozenset(
    {
        "length",
        "max_tokens",
        "max_output_tokens",
        "model_context_window_exceeded",
        "incomplete",
        "pause_turn",
    }
)
_REFUSED: Final = frozenset({"refusal", "content_filter"})
_BROKEN_OFF: Final = frozenset({"error", "failed", "abort", "aborted", "cancelled", "canceled"})
_ANSWER_PARTS: Final = frozenset({"text", "output_text"})


class NoAnswerError(Exception):
    """The reply has no answer text. `reason` is an ungraded reason code."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def generated_text(wire: str, body: Any) -> str:
    """Return the joined answer text of a reply, which may be empty.

    The stop reason is read before anything else. Raises NoAnswerError for a reply that was cut,
    refused or is of another shape, and UsageError for an unknown wire.
    """
    if wire == "text":
        return _plain(body)
    if wire not in _READERS:
        raise UsageError(f"unknown wire {wire!r}", fix=f"use one of {', '.join(WIRES)}")
    if not isinstance(body, dict):
        _invalid()
    return "".join(_READERS[wire](body))


def _plain(body: Any) -> str:
    if isinstance(body, bytes):
        try:
            return body.decode("utf-8")
        except UnicodeDecodeError:
            _invalid()
    if not isinstance(body, str):
        _invalid()
    return body


def _chat(body: dict[str, Any]) -> Iterator[str]:
    choices = body.get("choices")
    # One answer was asked for; which of several would count is nobody's to say.
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        _invalid()
    choice = choices[0]
    _check_stop(choice.get("finish_reason"))
    _check_error(body)
    _check_error(choice)
    message = choice.get("message")
    if not isinstance(message, dict) or not _is(message, "role", "assistant"):
        _invalid()
    refusal = message.get("refusal")
    if refusal is not None and not isinstance(refusal, str):
        _invalid()
    if refusal:
        raise NoAnswerError("judge_refused")
    content = message.get("content")
    if isinstance(content, str):
        yield content
    elif content is not None:
        yield from _texts(content)


def _responses(body: dict[str, Any]) -> Iterator[str]:
    details = body.get("incomplete_details")
    if body.get("status") == "incomplete" or details:
        cause = details.get("reason") if isinstance(details, dict) else None
        refused = isinstance(cause, str) and cause.lower() in _REFUSED
        raise NoAnswerError("judge_refused" if refused else "reply_truncated")
    _check_error(body)
    output = body.get("output")
    if not _is(body, "status", "completed") or not isinstance(output, list):
        _invalid()
    for item in output:
        if not isinstance(item, dict) or not isinstance(item.get("type"), str):
            _invalid()
        if item["type"] == "message" and _is(item, "role", "assistant"):
            _check_stop(item.get("status"))
            yield from _texts(item.get("content"))


def _messages(body: dict[str, Any]) -> Iterator[str]:
    _check_stop(body.get("stop_reason"))
    _check_error(body)
    if not _is(body, "type", "message") or not _is(body, "role", "assistant"):
        _invalid()
    yield from _texts(body.get("content"))


_READERS: Final[Mapping[str, Callable[[dict[str, Any]], Iterator[str]]]] = {
    "openai.chat": _chat,
    "openai.responses": _responses,
    "anthropic.messages": _messages,
}


def _is(holder: dict[str, Any], key: str, expected: str) -> bool:
    """Whether the key says what is expected, or nothing: servers leave such keys out."""
    return holder.get(key) in (None, expected)


def _check_stop(stop: Any) -> None:
    if stop is None:
        return
    if not isinstance(stop, str):
        _invalid()
    word = stop.lower()
    if word in _TRUNCATED:
        raise NoAnswerError("reply_truncated")
    if word in _REFUSED:
        raise NoAnswerError("judge_refused")
    if word in _BROKEN_OFF:
        _invalid()


def _check_error(holder: dict[str, Any]) -> None:
    if holder.get("error") is not None:
        _invalid()


def _texts(parts: Any) -> Iterator[str]:
    """Yield the texts of answer parts; reasoning, tool calls and the like are passed over."""
    if not isinstance(parts, list):
        _invalid()
    for part in parts:
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            _invalid()
        if part["type"] == "refusal":
            raise NoAnswerError("judge_refused")
        if part["type"] in _ANSWER_PARTS:
            if not isinstance(part.get("text"), str):
                _invalid()
            yield part["text"]


def _invalid() -> Never:
    raise NoAnswerError("reply_invalid")
