"""Replies to grade: a rubric, a reply object and the three wires around a text."""

from __future__ import annotations

import json
from typing import Any, Final

from grader_service.judging.reply import parse_reply
from grader_service.judging.rubric import Rubric, rubric_from_json
from grader_service.records.verdict import Decision

RUBRIC: Final = rubric_from_json(
    {
        "id": "test/place",
        "criteria": [
            {"id": "at_goal", "text": "The cube lies in the square."},
            {"id": "released", "text": "The gripper does not touch the cube."},
            {"id": "intact", "text": "Nothing fell over.", "required": False},
        ],
        "failure_modes": ["dropped", "other"],
    }
)
HOLISTIC: Final = rubric_from_json({"text": "The drawer is shut."})
TOKEN: Final = "t-7f3a9c"


def reply(*, met: str = "yes,yes,yes", **fields: Any) -> dict[str, Any]:
    """Return a reply object that succeeds, changed as told; a field given as ... is left out."""
    answers = zip(("at_goal", "released", "intact"), met.split(","), strict=True)
    whole = {
        "token": TOKEN,
        "criteria": [{"id": id_, "evidence": f"saw {id_}", "met": word} for id_, word in answers],
        "rationale": "It lies there.",
        "verdict": "success",
        "confidence": 0.8,
        "injection_suspected": False,
    }
    return {key: value for key, value in (whole | fields).items() if value is not ...}


def written(**fields: Any) -> str:
    return json.dumps(reply(**fields))


def parse(
    text: str | bytes, *, rubric: Rubric | None = RUBRIC, token: str | None = TOKEN
) -> Decision:
    return parse_reply("text", text, rubric=rubric, token=token)


def said(decision: Decision) -> str:
    """Return a decision in one word: its verdict when graded, else its reason."""
    return str(decision.verdict if decision.outcome == "graded" else decision.reason)


def chat(content: Any, *, finish: Any = "stop", **message: Any) -> dict[str, Any]:
    said_ = {"role": "assistant", "content": content, **message}
    return {"choices": [{"index": 0, "finish_reason": finish, "message": said_}]}


def responses(*texts: str, status: Any = "completed", **more: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text} for text in texts]
    output = [{"type": "reasoning", "summary": []}, {"type": "message", "content": content}]
    return {"status": status, "output": output, **more}


def messages(*texts: str, stop: Any = "end_turn", **more: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text} for text in texts]
    return {"type": "message", "content": content, "stop_reason": stop, **more}
