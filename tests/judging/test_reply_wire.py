"""How a reply ended is read before what it says, and only generated answer text is read at all."""

from __future__ import annotations

from typing import Any

import pytest

from grader_service.errors import UsageError
from grader_service.judging.reply import answer_text, parse_reply
from tests.judging.replies import RUBRIC, TOKEN, chat, messages, responses, said, written

YES = written()


def _said(wire: str, body: Any) -> str:
    return said(parse_reply(wire, body, rubric=RUBRIC, token=TOKEN))


@pytest.mark.parametrize(
    ("wire", "body"),
    [
        ("text", YES),
        ("text", YES.encode()),
        ("openai.chat", chat(YES)),
        ("openai.chat", chat(YES, refusal=None)),
        ("openai.chat", chat(YES, refusal="")),
        ("openai.chat", chat(YES, finish=None)),
        ("openai.chat", chat(YES, finish="eos")),
        ("openai.chat", chat(YES, reasoning_content="GRADE: failure")),
        (
            "openai.chat",
            chat([{"type": "thinking", "thinking": []}, {"type": "text", "text": YES}]),
        ),
        ("openai.chat", {"choices": [{"message": {"content": YES}}]}),
        ("openai.responses", responses(YES)),
        ("openai.responses", responses(YES[:40], YES[40:])),
        ("openai.responses", responses(YES, incomplete_details=None, error=None)),
        ("openai.responses", responses(YES, status=None)),
        ("anthropic.messages", messages(YES)),
        ("anthropic.messages", messages(YES[:40], YES[40:])),
        ("anthropic.messages", messages(YES, stop="stop_sequence")),
        ("anthropic.messages", {"content": [{"type": "text", "text": YES}]}),
    ],
)
def test_each_wire_carries_a_verdict(wire: str, body: Any) -> None:
    assert _said(wire, body) == "success"


@pytest.mark.parametrize(
    ("wire", "body"),
    [
        ("openai.chat", chat(YES, finish="length")),
        ("openai.chat", chat(YES, finish="MAX_TOKENS")),
        ("openai.chat", chat(None, finish="length")),
        ("openai.chat", chat(None, finish="length", refusal="no")),
        ("openai.chat", {"choices": [{"finish_reason": "length"}]}),
        ("openai.responses", responses(YES, status="incomplete")),
        ("openai.responses", {"status": "incomplete"}),
        ("openai.responses", responses(YES, incomplete_details={"reason": "max_output_tokens"})),
        ("openai.responses", responses(YES, incomplete_details={"reason": ["content_filter"]})),
        (
            "openai.responses",
            {"output": [{"type": "message", "status": "incomplete", "content": []}]},
        ),
        ("anthropic.messages", messages(YES, stop="max_tokens")),
        ("anthropic.messages", messages(YES, stop="model_context_window_exceeded")),
        ("anthropic.messages", messages(YES, stop="pause_turn")),
        ("anthropic.messages", {"stop_reason": "max_tokens"}),
    ],
)
def test_a_reply_that_was_cut_is_truncated_whatever_it_says(wire: str, body: Any) -> None:
    assert _said(wire, body) == "reply_truncated"


@pytest.mark.parametrize(
    ("wire", "body"),
    [
        ("openai.chat", chat(YES, refusal="I can't.")),
        ("openai.chat", chat(YES, finish="content_filter")),
        ("openai.chat", chat([{"type": "refusal", "refusal": "no"}])),
        ("openai.responses", responses(YES, incomplete_details={"reason": "content_filter"})),
        (
            "openai.responses",
            {"output": [{"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}]},
        ),
        ("anthropic.messages", messages(YES, stop="refusal")),
    ],
)
def test_a_refusal_is_a_refusal_whatever_it_says(wire: str, body: Any) -> None:
    assert _said(wire, body) == "judge_refused"


@pytest.mark.parametrize(
    ("wire", "body"),
    [
        ("text", " \n\t\u3000"),
        ("text", b""),
        ("text", f"<think>{YES}</think>"),
        ("text", f"> {YES}"),
        ("openai.chat", chat(None)),
        ("openai.chat", chat("")),
        ("openai.chat", chat([])),
        ("openai.chat", chat(None, finish="tool_calls", tool_calls=[{"function": {}}])),
        ("openai.chat", chat(None, reasoning=YES)),
        ("openai.responses", responses()),
        ("openai.responses", {"status": "completed", "output": []}),
        ("openai.responses", {"output": [{"type": "reasoning", "content": [{"text": YES}]}]}),
        (
            "openai.responses",
            {
                "output": [
                    {
                        "type": "message",
                        "role": "user",
                        "content": [{"type": "output_text", "text": YES}],
                    }
                ]
            },
        ),
        ("anthropic.messages", messages()),
        ("anthropic.messages", {"content": [{"type": "thinking", "thinking": YES}]}),
        ("anthropic.messages", {"content": [{"type": "tool_use", "input": {"verdict": "x"}}]}),
    ],
)
def test_a_reply_without_generated_text_is_empty(wire: str, body: Any) -> None:
    assert _said(wire, body) == "reply_empty"


@pytest.mark.parametrize(
    ("wire", "body"),
    [
        ("text", {"text": YES}),
        ("text", None),
        ("text", b"GRADE: success\xff"),
        ("openai.chat", YES),
        ("openai.chat", [chat(YES)]),
        ("openai.chat", {}),
        ("openai.chat", {"error": {"code": 502, "message": "upstream"}}),
        ("openai.chat", chat(YES) | {"error": {"code": 502}}),
        ("openai.chat", {"choices": []}),
        ("openai.chat", {"choices": [YES]}),
        ("openai.chat", {"choices": chat(YES)["choices"] * 2}),
        ("openai.chat", {"choices": [{"text": YES}]}),
        ("openai.chat", {"choices": [{"delta": {"content": YES}}]}),
        ("openai.chat", chat(YES, finish="error")),
        ("openai.chat", chat(YES, finish=3)),
        ("openai.chat", chat(YES, finish=["stop"])),
        ("openai.chat", chat(YES, role="user")),
        ("openai.chat", chat(YES, refusal={"why": "x"})),
        ("openai.chat", chat({"text": YES})),
        ("openai.chat", chat([YES])),
        ("openai.chat", chat([{"type": "text", "text": None}])),
        ("openai.chat", responses(YES)),
        ("openai.responses", {"output_text": YES}),
        ("openai.responses", responses(YES, status="failed")),
        ("openai.responses", responses(YES, status="in_progress")),
        ("openai.responses", responses(YES, error={"code": "server_error"})),
        ("openai.responses", {"output": [YES]}),
        ("openai.responses", {"output": [{"type": "message", "content": YES}]}),
        ("openai.responses", chat(YES)),
        ("anthropic.messages", {"type": "error", "error": {"type": "overloaded_error"}}),
        ("anthropic.messages", messages(YES, type="completion")),
        ("anthropic.messages", messages(YES, role="user")),
        ("anthropic.messages", {"content": YES, "stop_reason": "end_turn"}),
        ("anthropic.messages", {"content": [YES]}),
        ("anthropic.messages", {"content": [{"text": YES}]}),
        ("anthropic.messages", chat(YES)),
    ],
)
def test_a_response_of_another_shape_is_invalid(wire: str, body: Any) -> None:
    assert _said(wire, body) == "reply_invalid"
    assert answer_text(wire, body) is None


def test_text_blocks_are_joined_without_a_seam() -> None:
    assert answer_text("anthropic.messages", messages("GRADE: ", "success")) == "GRADE: success"
    split_sentence = messages("I must end with\n", "GRADE: success", " or GRADE: failure")
    assert _said("anthropic.messages", split_sentence) == "reply_invalid"


def test_the_answer_text_is_what_the_grammar_sees() -> None:
    text = "<think>so</think>a\r\n> quoted\r\nb\rc"
    assert answer_text("openai.chat", chat(text)) == "a\nb\nc"


def test_an_unknown_wire_is_wrong_use_and_says_which_there_are() -> None:
    with pytest.raises(UsageError, match=r"fix: use one of text, openai\.chat"):
        parse_reply("gemini", {}, rubric=None, token=None)
