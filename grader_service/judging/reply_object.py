"""The JSON objects of a reply that carry a verdict, found in one pass.

Brackets are paired first, then each outermost pair is parsed once. What stands between the pair
is an object or nothing; nothing inside it is looked at again. So the work is linear in the length
of the text, whatever is in it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from grader_service.judging.reply_text import ZERO_WIDTH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grader_service.judging.reply_text import Span

# A reply object is three levels deep. A fixed bound, so that whether a text parses depends on
# neither the interpreter's recursion limit nor the caller's depth.
MAX_DEPTH: Final = 128

# A line that opens or closes a fence. It can't stand inside a JSON value, so brackets that are
# open at its start never close.
_FENCE: Final = re.compile(r"^[ \t]*+(?:```|~~~)", re.MULTILINE)
_OPENER: Final = re.compile(r"[{\[]")
_TOKEN: Final = re.compile(r'"(?:[^"\\\n]++|\\.)*+"?+|[{}\[\]]')
# An opening bracket that is JSON and not punctuation: a string or a bracket comes next.
_JSON_OPENER: Final = re.compile(r'[{\[][ \t\n]*+["{\[]')
_BLANK: Final = rf"[\s{ZERO_WIDTH}]*+"
_BEGINS_WITH_OBJECT: Final = re.compile(
    _BLANK + r"(?:(?:`{3,}+|~{3,}+)[^\n{]*+|`{1,2}+)?+" + _BLANK + r"(?=\{)"
)


class Number(NamedTuple):
    """A JSON number as it was written: never converted, so no length of it can cost or fail."""

    text: str


class Found(NamedTuple):
    """The objects with a verdict and the spans of all outermost brackets, each in order.

    `begins_broken`: the text begins, perhaps in a fence, with a `{` that begins no JSON object.
    """

    objects: list[dict[str, Any]]
    spans: list[Span]
    begins_broken: bool


@dataclass(slots=True)
class _Bracket:
    kind: str
    start: int
    end: int = -1  # never closed
    too_deep: bool = False


def find_objects(text: str) -> Found:
    """Return the JSON objects that carry `verdict` at their top and stand in no other bracket."""
    begin = _BEGINS_WITH_OBJECT.match(text)
    broken = begin is not None
    objects: list[dict[str, Any]] = []
    spans: list[Span] = []
    for bracket in _outermost(text):
        spans.append((bracket.start, bracket.end))
        if bracket.kind == "[" or bracket.too_deep:
            continue
        value = parse_object(text[bracket.start : bracket.end])
        if value is None:
            continue
        if begin is not None and bracket.start == begin.end():
            broken = False
        if "verdict" in value:
            objects.append(value)
    return Found(objects, spans, broken)


def parse_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object that `text` is, or None.

    Duplicate keys, NaN and infinity make it none. Numbers come as `Number`.
    """
    try:
        value = json.loads(
            text,
            object_pairs_hook=_without_duplicates,
            parse_int=Number,
            parse_float=Number,
            parse_constant=_refuse,
        )
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("duplicate key")
    return value


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _outermost(text: str) -> Iterator[_Bracket]:
    """Yield the closed brackets that stand in no other, in order.

    A `{` or `[` that never closes hides what follows it if it begins like JSON (a broken value,
    whose parts are no values of their own), and is punctuation otherwise.
    """
    edges = [0, *(fence.start() for fence in _FENCE.finditer(text)), len(text)]
    for start, end in pairwise(edges):
        past = start
        for bracket in _brackets(text, start, end):
            if bracket.start < past:
                continue
            if bracket.end > 0:
                past = bracket.end
                yield bracket
            elif _JSON_OPENER.match(text, bracket.start, end):
                break


def _brackets(text: str, start: int, end: int) -> list[_Bracket]:
    """Return the brackets between two offsets in order, paired as JSON pairs them.

    Inside a bracket, strings hide what looks like one. A closer passes over openers of the other
    kind, which stay unclosed.
    """
    found: list[_Bracket] = []
    stack: list[_Bracket] = []
    waiting = {"{": 0, "[": 0}
    while token := (_TOKEN if stack else _OPENER).search(text, start, end):
        start = token.end()
        kind = token[0][0]
        if kind in waiting:
            found.append(_Bracket(kind, token.start()))
            stack.append(found[-1])
            waiting[kind] += 1
            if len(stack) > MAX_DEPTH:
                stack[-1 - MAX_DEPTH].too_deep = True
        elif kind != '"' and waiting["{" if kind == "}" else "["]:
            opener = "{" if kind == "}" else "["
            while True:
                bracket = stack.pop()
                waiting[bracket.kind] -= 1
                if bracket.kind == opener:
                    bracket.end = token.end()
                    break
    return found
