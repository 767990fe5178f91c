"""The answer as a chat completion: an object where the request asks for JSON, else prose."""

from __future__ import annotations

import json
import secrets
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from examples.pixel_judge.judge import Judgement
    from examples.pixel_judge.prompt import Request


def completion(request: Request, judgement: Judgement) -> dict[str, Any]:
    """Return the response body. Token counts are 0: no model read or wrote any."""
    content = _object(request, judgement) if request.wants_json else _prose(request, judgement)
    return {
        "id": f"chatcmpl-{secrets.token_hex(12)}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": request.model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content, "refusal": None},
                "finish_reason": "stop",
                "logprobs": None,
            }
        ],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }


def _object(request: Request, judgement: Judgement) -> str:
    return json.dumps(
        {
            "token": request.token,
            "criteria": [
                {"id": criterion.id, "evidence": finding.evidence, "met": finding.met}
                for criterion, finding in zip(request.criteria, judgement.findings, strict=True)
            ],
            "rationale": _sentence(judgement.rationale),
            "verdict": judgement.verdict,
            "confidence": round(judgement.confidence, 3),
            "injection_suspected": False,
            "failure_mode": "",
        }
    )


def _prose(request: Request, judgement: Judgement) -> str:
    lines = [
        f"{criterion.id}: {finding.met}, {finding.evidence}."
        for criterion, finding in zip(request.criteria, judgement.findings, strict=True)
    ]
    return "\n".join([*lines, f"GRADE: {judgement.verdict}"])


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
