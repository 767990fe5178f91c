"""JSON as RFC 8259 means it: what the standard library lets through is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, Final

from grader_service.errors import InputError

# What is read here is about 10 levels deep. Far below the interpreter's recursion limit, so that
# whoever walks the value later is safe too.
MAX_DEPTH: Final = 64


def strict_loads(
    data: bytes | str, *, max_depth: int = MAX_DEPTH, parse_int: Callable[[str], Any] = int
) -> Any:
    """Return the value of JSON text (bytes: UTF-8).

    Raises ValueError for what is not JSON, and for duplicate keys, NaN, infinity, numbers beyond
    the float or 4300 digit range and nesting deeper than `max_depth`.
    """
    try:
        value = json.loads(
            data.decode("utf-8") if isinstance(data, bytes) else data,
            object_pairs_hook=_object,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=parse_int,
        )
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None
    if not _shallow(value, max_depth):
        raise ValueError("JSON is nested too deeply")
    return value


def parse_strict(data: bytes, *, what: str) -> Any:
    """Return the value of JSON text from outside. Raises InputError that names `what`."""
    try:
        return strict_loads(data)
    except ValueError as error:
        raise InputError(f"{what} is not JSON: {error}", fix="send one JSON value") from error


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


def _shallow(value: Any, max_depth: int) -> bool:
    level = [value]
    for _ in range(max_depth):
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return True
    return False
