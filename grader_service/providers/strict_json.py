"""JSON as RFC 8259 means it: what the standard library lets through is refused."""

from __future__ import annotations

import json
import math
from typing import Any, Final

# Response objects are about 10 levels deep. Far below the interpreter's recursion limit, so that
# whoever walks the value later is safe too.
MAX_DEPTH: Final = 64


def strict_loads(data: bytes) -> Any:
    """Return the value of UTF-8 JSON text.

    Raises ValueError for what is not JSON, and for duplicate keys, NaN, infinity, numbers beyond
    the float or 4300 digit range and nesting deeper than MAX_DEPTH.
    """
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_no_constant,
            parse_float=_finite,
        )
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None
    if not _shallow(value):
        raise ValueError("JSON is nested too deeply")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a JSON object has a key twice")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a JSON number is out of range")
    return value


def _shallow(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return True
    return False
