"""Every value keeps its type, its sign and its order through JSON, or is refused."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from grader_service.errors import RecordError
from grader_service.records.canonical import canonical_bytes
from grader_service.records.tagged import decode, encode, inline_array
from tests.records.examples import assert_same, odd_values, thorough

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
dtypes = st.one_of(
    npst.boolean_dtypes(),
    npst.integer_dtypes(endianness="?"),
    npst.unsigned_integer_dtypes(endianness="?"),
    npst.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
    npst.complex_number_dtypes(endianness="?", sizes=(64, 128)),
    npst.datetime64_dtypes(endianness="?"),
)
arrays = npst.arrays(dtypes, npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
scalars = dtypes.flatmap(lambda dtype: npst.arrays(dtype, (1,))).map(lambda array: array[0])
keys = st.one_of(texts, st.integers(), st.booleans(), st.none(), st.tuples(texts, st.integers()))
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    texts,
    texts.map(lambda text: "$" + text),
    st.binary(max_size=8),
    scalars,
    texts.map(np.str_),
    st.binary(max_size=8).map(np.bytes_),
    arrays,
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(keys, inner, max_size=4),
        st.dictionaries(st.sampled_from(["$float", "$dict", "a", "b"]), inner, max_size=4),
    ),
    max_leaves=12,
)


def no_column(_: str) -> Any:
    raise AssertionError("nothing was kept elsewhere")


def through_json(value: Any) -> Any:
    data = canonical_bytes(encode(value, "it", inline_array))
    return decode(json.loads(data), "it", no_column)


@thorough
@given(values)
def test_any_value_comes_back_exactly(value: Any) -> None:
    assert_same(value, through_json(value))


def test_odd_values_come_back_exactly() -> None:
    assert_same(odd_values(), through_json(odd_values()))


@pytest.mark.parametrize(
    ("value", "tagged"),
    [
        (1, 1),
        (1.5, 1.5),
        (True, True),
        ("1", "1"),
        (1.0, {"$float": "1.0"}),
        (-0.0, {"$float": "-0.0"}),
        (math.nan, {"$float": "nan"}),
        (-math.inf, {"$float": "-inf"}),
        (2**53, {"$int": "9007199254740992"}),
        (np.float32(0.5), {"$np": ["float32", 0.5]}),
        (np.int64(2**60), {"$np": ["int64", {"$int": "1152921504606846976"}]}),
        (np.bool_(1), {"$np": ["bool", True]}),
        ((1,), {"$tuple": [1]}),
        (b"\x00", {"$bytes": "AA=="}),
        (np.array([1, 2], np.uint8), {"$array": ["|u1", [2], "AQI="]}),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}),
        ({"b": 2, "a": 1}, {"$dict": [["b", 2], ["a", 1]]}),
        ({"$a": 1}, {"$dict": [["$a", 1]]}),
        ({1: 2}, {"$dict": [[1, 2]]}),
    ],
)
def test_values_are_written_in_one_documented_form(value: Any, tagged: Any) -> None:
    assert encode(value, "it", inline_array) == tagged
    assert json.dumps(encode(value, "it", inline_array)) == json.dumps(tagged)


def test_an_array_read_back_can_be_written_to() -> None:
    array = through_json(np.zeros(2))
    array[0] = 1.0
    assert array.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    "data",
    [
        {"$what": 1},
        {"$float": "x"},
        {"$float": 1.0},
        {"$int": "1.5"},
        {"$int": "9" * 5_000},
        {"$float": "1.0", "a": 1},
        {"a": 1, "$float": "1.0"},
        {"$tuple": {"a": 1}},
        {"$tuple": 1},
        {"$bytes": "*"},
        {"$bytes": 1},
        {"$dict": [[1]]},
        {"$dict": [[[1], 2]]},
        {"$dict": [[1, 2], [1, 3]]},
        {"$dict": [[1, 2], [True, 3]]},
        {"$dict": {"a": 1}},
        {"$np": ["float32"]},
        {"$np": ["float32", "x"]},
        {"$np": ["int8", 300]},
        {"$np": ["object", "AA=="]},
        {"$np": ["O", "AAAAAAAAAAA="]},
        {"$np": ["<c16", "AA=="]},
        {"$np": [["<f8"], 1]},
        {"$array": ["<f8", [2], "AAAAAAAAAAA="]},
        {"$array": ["<f8", [0], "AAAAAAAAAAA="]},
        {"$array": ["<f8", [-1], "AAAAAAAAAAA="]},
        {"$array": ["<f8", [99999999999999], "AAAAAAAAAAA="]},
        {"$array": ["<f8", 1, "AAAAAAAAAAA="]},
        {"$array": ["O", [1], "AAAAAAAAAAA="]},
        {"$array": ["f8,O", [1], "AAAAAAAAAAAAAAAAAAAAAA=="]},
        {"$array": ["nonsense", [1], "AA=="]},
        {"$array": "x"},
        {"$column": 1},
    ],
)
def test_a_malformed_tag_is_refused(data: Any) -> None:
    with pytest.raises(RecordError):
        decode(data, "it", no_column)
