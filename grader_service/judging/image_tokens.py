"""How many input tokens an image takes, by model family, as the vendors' vision guides of 2026 say.

The counts are for whole images at the detail "high", which is what judges are asked with.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Final

Formula = Callable[[int, int], int]

_DATED: Final = r"(?:-\d{4}-\d{2}-\d{2}|-\d{8}|-latest)?"


def image_tokens(model: str, width: int, height: int) -> int | None:
    """Return the tokens of one image of that many pixels; None for an unknown model family.

    A prefix that names who made the model ("openai/gpt-6-luna") is passed over.
    """
    formula = _formula(model.lower().rpartition("/")[2])
    return None if formula is None else formula(width, height)


@cache
def _formula(model: str) -> Formula | None:
    for pattern, formula in _FAMILIES:
        if re.fullmatch(f"(?:{pattern}){_DATED}", model):
            return formula
    return None


def _claude(*, long_edge: int, tokens: int) -> Formula:
    """One token for 28 px x 28 px; what is over either limit is scaled down until it fits."""

    @cache
    def count(width: int, height: int) -> int:
        longer = max(width, height)
        for edge in range(min(longer, long_edge), 0, -1):
            # The sides become side * edge / longer; whole numbers, since 92.0000001 is not 93.
            columns, rows = (-(-side * edge // (28 * longer)) for side in (width, height))
            if columns * rows <= tokens:
                break
        return columns * rows

    return count


def _patches(multiplier: str, *, at_most: int | None = None) -> Formula:
    """`multiplier` tokens for each patch of 32 px x 32 px, after scaling down to `at_most`."""
    exact = Fraction(multiplier)

    def count(width: int, height: int) -> int:
        columns, rows = width / 32, height / 32
        if at_most is not None and math.ceil(columns) * math.ceil(rows) > at_most:
            scale = math.sqrt(at_most / (columns * rows))
            # So that the side that would be cut the most is a whole number of patches.
            scale *= min(
                math.floor(columns * scale) / (columns * scale),
                math.floor(rows * scale) / (rows * scale),
            )
            # Rounded, since a whole number of patches must not become one more.
            columns, rows = round(columns * scale, 6), round(rows * scale, 6)
        return math.ceil(math.ceil(columns) * math.ceil(rows) * exact)

    return count


def _tiles(base: int, tile: int) -> Formula:
    """`base`, and `tile` for each 512 px x 512 px of the image within 2048 px and 768 px."""

    def count(width: int, height: int) -> int:
        scale = min(1.0, 2048 / max(width, height), 768 / min(width, height))
        columns, rows = (math.ceil(round(side * scale / 512, 6)) for side in (width, height))
        return base + tile * columns * rows

    return count


_CLAUDE: Final = _claude(long_edge=2576, tokens=4784)
_CLAUDE_BEFORE_4_7: Final = _claude(long_edge=1568, tokens=1568)

_FAMILIES: Final[tuple[tuple[str, Formula], ...]] = (
    (r"claude-3(?:-[57])?-[a-z]+", _CLAUDE_BEFORE_4_7),
    (r"claude-[a-z]+-4(?:-[0-6])?", _CLAUDE_BEFORE_4_7),
    (r"claude-[a-z]+-(?:4-[7-9]|[5-9](?:-\d)?)", _CLAUDE),
    (r"gpt-(?:5\.6|6(?:\.\d)?)-[a-z]+", _patches("1.2")),
    (r"gpt-(?:5\.4|5|4\.1)-mini|gpt-5\.2", _patches("1.62", at_most=1536)),
    (r"gpt-(?:5\.4|5|4\.1)-nano", _patches("2.46", at_most=1536)),
    (r"o4-mini", _patches("1.72", at_most=1536)),
    (r"gpt-4o|gpt-4\.1|chatgpt-4o", _tiles(85, 170)),
    (r"gpt-4o-mini", _tiles(2833, 5667)),
    (r"gpt-5|gpt-5-chat", _tiles(70, 140)),
    (r"o1|o3", _tiles(75, 150)),
)
