"""Canonical JSON: the one byte form that digests and ScoreCards are made of."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

import rfc8785

# The largest integer that every JSON reader keeps exactly (RFC 8785 refuses larger ones).
MAX_SAFE_INTEGER = 2**53 - 1

# The encoder of the standard library writes most values as RFC 8785 has it, ten times faster than
# the library `rfc8785`, which is Python; `_plain` tells which it does not.
_encode = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, separators=(",", ":"), sort_keys=True
).encode


def canonical_bytes(value: Any) -> bytes:
    """Return `value` as RFC 8785 JSON in UTF-8, plus one LF.

    What RFC 8785 can't hold gets one fixed form: non-finite floats become "NaN", "Infinity" and
    "-Infinity", integers beyond 2^53-1 become {"$int": "…"}, a lone surrogate becomes U+FFFD.
    Raises TypeError for a value that is no JSON type, and for a key that is not a string.
    """
    otherwise: list[Any] = []
    plain = _plain(value, otherwise)
    if otherwise:
        return rfc8785.dumps(plain) + b"\n"
    return _encode(plain).encode() + b"\n"


def canonical_json(value: Any) -> str:
    """Return the text of `canonical_bytes`."""
    return canonical_bytes(value).decode("utf-8")


def digest(data: bytes) -> str:
    """Return the sha256 of `data` as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def digest_of(value: Any) -> str:
    """Return the digest of a JSON value's canonical bytes."""
    return digest(canonical_bytes(value))


def _plain(value: Any, otherwise: list[Any]) -> Any:
    """Return `value` in JSON types; add to `otherwise` what `_encode` writes otherwise."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return scrub_surrogates(value)
    if isinstance(value, int):
        return value if abs(value) <= MAX_SAFE_INTEGER else {"$int": str(value)}
    if isinstance(value, float):
        return _plain_float(value, otherwise)
    if isinstance(value, Mapping):
        return {_key(key, otherwise): _plain(item, otherwise) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, otherwise) for item in value]
    raise TypeError(f"{type(value).__name__} is no JSON type")


def _plain_float(value: float, otherwise: list[Any]) -> Any:
    if not math.isfinite(value):
        return nonfinite_name(value)
    if value.is_integer() and abs(value) <= MAX_SAFE_INTEGER:
        return int(value)
    # Outside of these bounds Python turns to exponents earlier than RFC 8785 does.
    if not 1e-4 <= abs(value) < 1e16:  # noqa: PLR2004
        otherwise.append(value)
    return value


def _key(key: Any, otherwise: list[Any]) -> str:
    if not isinstance(key, str):
        raise TypeError(f"JSON object keys are strings, not {type(key).__name__}")
    # RFC 8785 sorts by UTF-16, which puts these before some of the others.
    if not key.isascii() and max(key) > "\uffff":
        otherwise.append(key)
    return scrub_surrogates(key)


def nonfinite_name(value: float) -> str:
    """Return "NaN", "Infinity" or "-Infinity"."""
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def scrub_surrogates(text: str) -> str:
    """Return `text` with every lone surrogate replaced by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "".join("�" if "\ud800" <= char <= "\udfff" else char for char in text)
    return text
