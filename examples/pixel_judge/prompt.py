"""Reading a chat completion request: the frames, the task, the criteria, the trial's token.

Nothing else reaches this judge: it knows no file, no trial and no truth.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from examples.pixel_judge.vision import View
from grader_service.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from examples.pixel_judge.scene import Phase

_FENCE: Final = re.compile(
    r'<data-(?P<nonce>[\w-]+) name="(?P<name>[\w-]+)">\n(?P<text>.*?)\n</data-(?P=nonce)>',
    re.DOTALL,
)
_CRITERION: Final = re.compile(r"^- (\S+) \((required|optional)\): (.*)$", re.MULTILINE)
_LABEL: Final = re.compile(
    r"^Frame \d+ of \d+: (FIRST|LAST)( \(parked\))?, camera "
    r'(?:<data-[\w-]+ name="camera">)?(.+?)(?:</data-[\w-]+>)?$'
)
_TOKEN: Final = re.compile(r"^Trial token: (\S+)$", re.MULTILINE)
_DATA_URL: Final = re.compile(r"data:image/[\w.+-]+;base64,")


class Criterion(NamedTuple):
    """One statement to answer."""

    id: str
    required: bool
    text: str


class Request(NamedTuple):
    """What was asked. `views` are by phase and camera; a parked frame stands in for the last."""

    model: str
    token: str
    instruction: str
    criteria: tuple[Criterion, ...]
    views: Mapping[tuple[Phase, str], View]
    wants_json: bool


def read_request(body: Any) -> Request:
    """Read the parsed JSON body of a request. Raises UsageError for one of another form."""
    if not isinstance(body, dict):
        raise UsageError("the body is no JSON object", fix="send a chat completion request")
    if body.get("stream"):
        raise UsageError("this judge does not stream", fix='leave "stream" out')
    parts = list(_user_parts(body.get("messages")))
    text = "\n".join(part for part in parts if isinstance(part, str))
    fenced = {match["name"]: match["text"] for match in _FENCE.finditer(text)}
    # Outside the fences only: what is inside was written by others and may imitate a token.
    token = _TOKEN.search(_FENCE.sub("", text))
    form = body.get("response_format")
    return Request(
        model=str(body.get("model") or "pixel-judge"),
        token=token[1] if token else "",
        instruction=fenced.get("task", ""),
        criteria=tuple(
            Criterion(id_, need == "required", statement)
            for id_, need, statement in _CRITERION.findall(fenced.get("criteria", ""))
        ),
        views=_views(parts),
        wants_json=isinstance(form, dict) and form.get("type") in ("json_schema", "json_object"),
    )


def _user_parts(messages: Any) -> Iterator[str | View]:
    if not isinstance(messages, list) or not messages:
        raise UsageError("there are no messages", fix="send at least one user message")
    for message in messages:
        match message:
            case {"role": "user", "content": str(text)}:
                yield text
            case {"role": "user", "content": list(parts)}:
                yield from map(_part, parts)
            case {"role": str(), "content": _}:
                pass
            case _:
                raise UsageError("a message has no role or content", fix="give it both")


def _part(part: Any) -> str | View:
    match part:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            return View.decode(_bytes_of(url))
    raise UsageError("a content part is neither text nor image_url", fix="send only these two")


def _bytes_of(url: str) -> bytes:
    head = _DATA_URL.match(url)
    if head is None:
        raise UsageError(
            "an image_url is no base64 data URL of an image", fix="send data:image/jpeg;base64,…"
        )
    try:
        return base64.b64decode(url[head.end() :], validate=True)
    except binascii.Error:
        raise UsageError("an image_url is not base64", fix="encode the image's bytes") from None


def _views(parts: list[str | View]) -> dict[tuple[Phase, str], View]:
    views: dict[tuple[Phase, str], View] = {}
    parked = set()
    label = None
    for part in parts:
        if isinstance(part, str):
            label = _LABEL.match(part)
        elif label is not None:
            phase: Phase = "first" if label[1] == "FIRST" else "last"
            key = (phase, label[3])
            if label[2]:
                parked.add(key)
            elif key in parked:
                continue
            views[key] = part
    return views
