"""Canonical JSON: the one byte form that digests and ScoreCards are made of."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import rfc8785

# The largest integer that every JSON reader keeps exactly (RFC 8785 refuses larger ones).
MAX_SAFE_INTEGER = 2**53 - 1


def canonical_bytes(value: Any) -> bytes:
    """Return `value` as RFC 8785 JSON in UTF-8, plus one LF.

    What RFC 8785 can't hold gets one fixed form: non-finite floats become "NaN", "Infinity" and
    "-Infinity", integers beyond 2^53-1 become {"$int": "…"}, a lone surrogate becomes U+FFFD.
    Raises TypeError for a value that is no JSON type, and for a key that is not a string.
    """
    return rfc8785.dumps(_plain(value)) + b"\n"


def canonical_json(value: Any) -> str:
    """Return the text of `canonical_bytes`."""
    return canonical_bytes(value).decode("utf-8")


def digest(data: bytes) -> str:
    """Return the sha256 of `data` as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def digest_of(value: Any) -> str:
    """Return the digest of a JSON value's canonical bytes."""
    return digest(canonical_bytes(value))


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return scrub_surrogates(value)
    if isinstance(value, int):
        return value if abs(value) <= MAX_SAFE_INTEGER else {"$int": str(value)}
    if isinstance(value, float):
        return value if math.isfinite(value) else nonfinite_name(value)
    if isinstance(value, Mapping):
        return {_key(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    raise TypeError(f"{type(value).__name__} is no JSON type")


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"JSON object keys are strings, not {type(key).__name__}")
    return scrub_surrogates(key)


def nonfinite_name(value: float) -> str:
    """Return "NaN", "Infinity" or "-Infinity"."""
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def scrub_surrogates(text: str) -> str:
    """Return `text` with every lone surrogate replaced by U+FFFD."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "".join("�" if "\ud800" <= char <= "\udfff" else char for char in text)
    return text
