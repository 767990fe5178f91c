"""What of a reply's text counts, and the lines in it that are a grade."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

Span = tuple[int, int]

# Zero-width space, non-joiner, joiner, left-to-right and right-to-left mark, word joiner, BOM.
ZERO_WIDTH: Final = "\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"
_NO_ZERO_WIDTH: Final = dict.fromkeys(map(ord, ZERO_WIDTH))
_INDENT: Final = " \t\u00a0\u3000" + ZERO_WIDTH

_THINK: Final = re.compile(r"</?think>", re.IGNORECASE)

# Possessive throughout: a character that was taken is never given back, so one pass decides.
_MARKS: Final = "[\\s*_`\"'“”‘’«»]*+"  # noqa: RUF001 - typographic quotes are meant
_GRADE: Final = re.compile(
    f"(?P<before>{_MARKS})grade(?P<label>{_MARKS})[:\uff1a](?P<between>{_MARKS})"
    f"(?P<word>success|failure|abstain)(?P<after>{_MARKS}(?:\\.{_MARKS})?+)"
)
_MARK: Final = re.compile(r"([*_`\"'])\1*+|[“”‘’«»]")  # noqa: RUF001 - as above
_CLOSES: Final = {"“": "”", "‘": "’", "«": "»"}  # noqa: RUF001 - as above


def answer_only(text: str) -> str:
    """Return `text` without thinking and block quotes, its line ends made LF."""
    text = _without_thinking(text.replace("\r\n", "\n").replace("\r", "\n"))
    lines = text.split("\n")
    return "\n".join(line for line in lines if not line.lstrip(_INDENT).startswith(">"))


def _without_thinking(text: str) -> str:
    """Drop `<think>…</think>`, nested ones whole, and all that follows one that never closes.

    The tag that never closes stays: a reply that is one broken-off thought is not an empty reply.
    """
    kept: list[str] = []
    depth = start = 0
    for tag in _THINK.finditer(text):
        if not tag[0].startswith("</"):
            if depth == 0:
                kept.append(text[start : tag.start()])
            depth += 1
        elif depth > 0:
            depth -= 1
            start = tag.end()
    kept.append(text[start:] if depth == 0 else "<think>")
    return "".join(kept)


def grade_words(text: str, apart: Sequence[Span]) -> list[str]:
    """Return the word of each line that as a whole is a grade, in order.

    Lines that begin inside one of the spans `apart` (sorted, disjoint) belong to what stands
    there and are no lines of the reply.
    """
    starts = [start for start, _ in apart]
    words: list[str] = []
    position = 0
    for line in text.split("\n"):
        word = _grade_word(line)
        if word is not None:
            before = bisect_right(starts, position) - 1
            if before < 0 or apart[before][1] <= position:
                words.append(word)
        position += len(line) + 1
    return words


def _grade_word(line: str) -> str | None:
    match = _GRADE.fullmatch(line.translate(_NO_ZERO_WIDTH).lower())
    if match is None or not _marks_pair_up(match):
        return None
    return match["word"]


def _marks_pair_up(match: re.Match[str]) -> bool:
    """Whether emphasis, back-ticks and quotes surround something: opened first, closed after.

    A mark that is left over belongs to a sentence that began on another line.
    """
    open_marks: list[str] = []
    for group in ("before", "label", "between", "after"):
        for mark in _MARK.finditer(match[group]):
            if group != "before" and open_marks and mark[0] == open_marks[-1]:
                open_marks.pop()
            elif group == "label":
                return False
            else:
                open_marks.append(_CLOSES.get(mark[0], mark[0]))
    return not open_marks
