"""Canonical JSON is that of RFC 8785, however it is made."""

from __future__ import annotations

import enum
import math

import numpy as np
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from grader_service.records.canonical import MAX_SAFE_INTEGER, canonical_bytes, canonical_json

# Surrogates are not text, and have a test of their own.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.floats(-3, 3)
    | TEXT
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=30
)


class Word(enum.StrEnum):
    YES = "yes"


@given(VALUES)
def test_every_json_value_is_written_as_rfc_8785_has_it(value: object) -> None:
    assert canonical_bytes(value) == rfc8785.dumps(value) + b"\n"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (1e15, "1000000000000000"),
        (1e16, "10000000000000000"),
        (1.5e20, "150000000000000000000"),
        (1e21, "1e+21"),
        (0.0001, "0.0001"),
        (0.00001, "0.00001"),
        (1e-7, "1e-7"),
        (np.float64(0.1), "0.1"),
        (2**53, '{"$int":"9007199254740992"}'),
        (math.nan, '"NaN"'),
        (-math.inf, '"-Infinity"'),
        ('\x00\x1f\x7f\u2028/"\\', '"\\u0000\\u001f\x7f\u2028/\\"\\\\"'),
        ("a\ud800b", '"a\ufffdb"'),
        (("a", 1), '["a",1]'),
        (Word.YES, '"yes"'),
        # Sorted by UTF-16: the surrogates of U+1F600 come before U+FB33.
        ({"\ufb33": 1, "\U0001f600": 2, "a": 3}, '{"a":3,"\U0001f600":2,"\ufb33":1}'),
    ],
)
def test_what_python_would_write_otherwise_has_its_one_form(value: object, text: str) -> None:
    assert canonical_json(value) == text + "\n"


@pytest.mark.parametrize("value", [{1: 2}, {"a": {None: 1}}, b"bytes", {"a": {1, 2}}])
def test_what_is_no_json_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        canonical_bytes(value)
