"""Values as JSON that gives back exactly the same value and type.

JSON and RFC 8785 merge 1, 1.0 and -0.0, lack NaN and large integers, sort keys and know neither
tuples nor numpy. What they would change is written as an object with one key that starts with "$":

    {"$float": "1.0"}                     a float without a fraction, NaN, or an infinity
    {"$int": "9007199254740993"}          an integer beyond 2^53-1
    {"$np": ["float32", 0.5]}             a numpy scalar
    {"$array": ["<f8", [2], "<base64>"]}  an array, C order
    {"$column": "<sha256>"}               an array in columns/<sha256>.npy
    {"$tuple": [...]}, {"$bytes": "<base64>"}
    {"$dict": [[key, value], ...]}        a dict whose keys are no strings, start with "$", or are
                                          in another order than the sorted one

Only two things change: mappings come back as `dict`, and a lone surrogate becomes U+FFFD.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from grader_service.errors import RecordError
from grader_service.records.canonical import MAX_SAFE_INTEGER, scrub_surrogates
from grader_service.records.trial import Array

# Returns the tagged JSON of an array: `inline_array`, or a $column for one that is kept elsewhere.
Put = Callable[[Array], Any]
# Returns the array of a $column.
Get = Callable[[str], Array]

# Each level is up to three in JSON, which is read to a depth of 64.
MAX_DEPTH = 20

_READABLE = {
    np.dtype(name).name: np.dtype(name).type
    for name in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
}
_SAVED_KINDS = "biufcmMUS"
_DTYPE = re.compile(rf"[<>|][{_SAVED_KINDS}]\d{{1,9}}(\[\w{{1,9}}\])?")


def encode(value: Any, where: str, put: Put, depth: int = 0) -> Any:
    """Return `value` as tagged JSON. Raises RecordError, naming `where`, for what can't be kept."""
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is str:
        return scrub_surrogates(value)
    if kind is int:
        return value if abs(value) <= MAX_SAFE_INTEGER else {"$int": _digits(value, where)}
    if kind is float:
        tagged = value.is_integer() or not math.isfinite(value)
        return {"$float": repr(value)} if tagged else value
    if kind is bytes:
        return {"$bytes": _base64(value)}
    if depth == MAX_DEPTH:
        raise RecordError(
            f"{where} is nested more than {MAX_DEPTH} deep", fix="flatten it before saving"
        )
    if kind is list:
        return [encode(item, f"{where}[{i}]", put, depth + 1) for i, item in enumerate(value)]
    if kind is tuple:
        items = enumerate(value)
        return {"$tuple": [encode(item, f"{where}[{i}]", put, depth + 1) for i, item in items]}
    if isinstance(value, Mapping):
        return _encode_mapping(value, where, put, depth)
    if isinstance(value, np.generic):
        return {"$np": _encode_scalar(value, where)}
    if kind is np.ndarray:
        return encode_array(value, where, put)
    raise RecordError(
        f"{where} is a {kind.__module__}.{kind.__qualname__}, which can't be saved exactly",
        fix="use numbers, strings, bytes, None, lists, tuples, dicts and numpy arrays of them",
    )


def encode_array(value: Array, where: str, put: Put) -> Any:
    """Return what `put` makes of an array. Raises RecordError for types that can't be kept."""
    check_dtype(value.dtype, where)
    return put(value)


def inline_array(value: Array) -> Any:
    """Return an array as tagged JSON that holds its values."""
    return {"$array": [value.dtype.str, list(value.shape), _base64(value.tobytes())]}


def check_dtype(dtype: np.dtype[Any], where: str) -> None:
    """Refuse arrays of objects and records, and floats whose size depends on the machine."""
    largest = {"f": 8, "c": 16}.get(dtype.kind, dtype.itemsize)
    if dtype.kind not in _SAVED_KINDS or dtype.itemsize > largest:
        raise RecordError(
            f"{where} has the numpy type {dtype}, which can't be saved exactly",
            fix="convert it to a bool, integer, float64 or string array",
        )


def _encode_scalar(value: np.generic, where: str) -> list[Any]:
    dtype = value.dtype
    check_dtype(dtype, where)
    if dtype.kind == "U":
        return ["str", scrub_surrogates(str(value))]
    if dtype.kind == "S":
        return ["bytes", _base64(value.item())]
    if _READABLE.get(dtype.name) is type(value):
        return [dtype.name, encode(value.item(), where, inline_array)]
    return [dtype.str, _base64(value.tobytes())]


def _encode_mapping(value: Mapping[Any, Any], where: str, put: Put, depth: int) -> Any:
    pairs = [
        (
            encode(key, f"a key of {where}", put, depth + 1),
            encode(item, f"{where}[{key!r}]", put, depth + 1),
        )
        for key, item in value.items()
    ]
    keys = [key for key, _ in pairs]
    names = [key for key in keys if isinstance(key, str)]
    if len(set(names)) < len(names):
        raise RecordError(
            f"{where} has keys that differ only in lone surrogates", fix="rename one of them"
        )
    tagged = len(names) < len(keys) or any(name.startswith("$") for name in names)
    if tagged or names != sorted(names, key=_utf16):
        return {"$dict": [[key, item] for key, item in pairs]}
    return dict(pairs)


def _utf16(key: str) -> bytes:
    """RFC 8785 sorts keys by UTF-16 code units."""
    return key.encode("utf-16-be")


def _digits(value: int, where: str) -> str:
    try:
        return str(value)
    except ValueError as error:
        raise RecordError(f"{where} is too large an integer", fix="save it as a float") from error


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def decode(data: Any, where: str, get: Get) -> Any:
    """Return the value that `encode` was given. Raises RecordError for what it can't have made."""
    if data is None or isinstance(data, bool | int | float | str):
        return data
    if isinstance(data, list):
        return [decode(item, f"{where}[{i}]", get) for i, item in enumerate(data)]
    tag = next(iter(data), "")
    if not tag.startswith("$"):
        return {
            _plain_key(key, where): decode(item, f"{where}[{key!r}]", get)
            for key, item in data.items()
        }
    if len(data) != 1 or tag not in _DECODERS:
        raise RecordError(f"{where} has an unknown tag {tag!r}")
    try:
        return _DECODERS[tag](data[tag], where, get)
    except (ValueError, TypeError, OverflowError, KeyError) as error:
        if isinstance(error, RecordError):
            raise
        raise RecordError(f"{where} has a malformed {tag}: {error}") from error


def _plain_key(key: str, where: str) -> str:
    if key.startswith("$"):
        raise RecordError(f"{where} has a tag {key!r} beside other keys")
    return key


def _decode_dict(pairs: Any, where: str, get: Get) -> dict[Any, Any]:
    made = {}
    for key, item in pairs:
        made[decode(key, f"a key of {where}", get)] = decode(item, where, get)
    if len(made) != len(pairs):
        raise ValueError("a key comes twice")
    return made


def plain_array(
    name: str,
    shape: Sequence[int],
    data: bytes | memoryview,
    where: str,
    order: Literal["C", "F"] = "C",
) -> Array:
    """Return the array of numpy type `name` in `data`, writable.

    The bytes that type and shape promise are counted before anything is allocated. Raises
    RecordError.
    """
    if not _DTYPE.fullmatch(name):
        raise RecordError(f"{where} has the type {name[:40]!r}, which is no plain one")
    try:
        dtype = np.dtype(name)
    except TypeError as error:
        raise RecordError(f"{where} has an unknown type: {error}") from error
    check_dtype(dtype, where)
    if any(type(size) is not int or size < 0 for size in shape):
        raise RecordError(f"{where} has a shape that is none")
    promised = math.prod(shape) * dtype.itemsize
    if promised != len(data):
        raise RecordError(f"{where} promises {promised} bytes and holds {len(data)}")
    try:
        array = np.ndarray(tuple(shape), dtype, bytearray(data), order=order)
    except ValueError as error:
        raise RecordError(f"{where} has an impossible shape: {error}") from error
    if dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
        raise RecordError(f"{where} holds bytes that are no booleans")
    return array


def _decode_array(spec: Any, where: str, _get: Get) -> Array:
    name, shape, text = spec
    return plain_array(_text(name), shape, _unbase64(text), where)


def _decode_scalar(spec: Any, where: str, get: Get) -> np.generic:
    name, data = spec
    if name == "str":
        return np.str_(_text(data))
    if name == "bytes":
        return np.bytes_(_unbase64(data))
    if name not in _READABLE:
        scalar: Any = _decode_array([name, [], data], where, get)[()]
        return scalar  # type: ignore[no-any-return]  # () takes the scalar out
    value = decode(data, where, get)
    with np.errstate(all="ignore"):
        made: np.generic = _READABLE[name](value)
    if repr(made.item()) != repr(value):
        raise ValueError(f"{value!r} is no {name}")
    return made


def _decode_tuple(items: Any, where: str, get: Get) -> tuple[Any, ...]:
    if not isinstance(items, list):
        raise TypeError("its items are no list")
    return tuple(decode(items, where, get))


def _unbase64(text: Any) -> bytes:
    return base64.b64decode(_text(text), validate=True)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no string")
    return value


_DECODERS: Mapping[str, Callable[[Any, str, Get], Any]] = {
    "$float": lambda text, *_: float(_text(text)),
    "$int": lambda text, *_: int(_text(text)),
    "$bytes": lambda text, *_: _unbase64(text),
    "$tuple": _decode_tuple,
    "$dict": _decode_dict,
    "$np": _decode_scalar,
    "$array": _decode_array,
    "$column": lambda sha256, _where, get: get(_text(sha256)),
}
