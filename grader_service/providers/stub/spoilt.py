"""Answers as models spoil them: cut, refused, in another form, at odds with themselves."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from grader_service.providers.stub.answers import in_prose, reply_object, say
from grader_service.providers.stub.wires import Said

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from grader_service.providers.stub.answers import Opinion
    from grader_service.providers.stub.wires import Request


@dataclass(frozen=True, slots=True)
class _Draft:
    """A good answer: as it would be said, as an object, and as prose."""

    said: Said
    reply: Mapping[str, Any]
    prose: str

    @property
    def whole(self) -> str:
        return json.dumps(self.reply)

    @property
    def half(self) -> str:
        text = self.said.text or ""
        return text[: len(text) // 2]

    @property
    def opposite(self) -> str:
        return "failure" if self.reply["verdict"] == "success" else "success"

    def changed(self, **changes: Any) -> Said:
        return Said(json.dumps({**self.reply, **changes}))


def _without_verdict(draft: _Draft) -> Said:
    return Said(json.dumps({k: v for k, v in draft.reply.items() if k != "verdict"}))


SPOILERS: Final[Mapping[str, Callable[[_Draft], Said]]] = {
    "length": lambda draft: Said(draft.half, stop="length"),
    "context": lambda draft: Said(draft.half, stop="context"),
    "refusal": lambda _: Said("", stop="refusal"),
    "content_filter": lambda _: Said("", stop="content_filter"),
    "empty": lambda _: Said(""),
    "null_content": lambda _: Said(None),
    "thinking": lambda draft: replace(draft.said, thinking="Stub thinking.\nGRADE: success"),
    "thinking_only": lambda draft: Said(None, thinking=draft.said.text),
    "no_usage": lambda draft: replace(draft.said, usage=False),
    "malformed_json": lambda draft: Said(draft.whole.removesuffix("}") + ",}"),
    "truncated_json": lambda draft: Said(draft.whole[: len(draft.whole) // 2]),
    "fenced_json": lambda draft: Said(f"The answer:\n```json\n{draft.whole}\n```"),
    "text_grade": lambda draft: Said(draft.prose),
    "dup_grade": lambda draft: Said(f"{draft.prose}\nGRADE: {draft.opposite}"),
    "conflicting": lambda draft: Said(f"{draft.whole}\nGRADE: {draft.opposite}"),
    "dup_keys": lambda draft: Said(
        draft.whole.removesuffix("}") + f', "verdict": "{draft.opposite}"}}'
    ),
    "nan_conf": lambda draft: draft.changed(confidence=float("nan")),
    "bad_enum": lambda draft: draft.changed(verdict="pass"),
    "extra_keys": lambda draft: draft.changed(mood="sunny"),
    "no_verdict": _without_verdict,
    "injection": lambda draft: draft.changed(injection_suspected=True),
    "wrong_token": lambda draft: draft.changed(token="t-" + "0" * 16),
}


def spoilt(fault: str, opinion: Opinion, request: Request) -> Said:
    """Return the answer that a model in the grip of `fault`, a key of SPOILERS, gives."""
    draft = _Draft(say(opinion, request), reply_object(opinion, request), in_prose(opinion))
    return SPOILERS[fault](draft)
