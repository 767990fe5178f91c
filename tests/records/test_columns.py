"""Columns give their rows back exactly, and a few hostile bytes can't ask for much memory."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader_service.errors import RecordError
from grader_service.records.canonical import canonical_bytes
from grader_service.records.columns import MAX_CELLS, MAX_ROWS, ColumnReader, ColumnWriter
from tests.records.examples import assert_same, thorough
from tests.records.test_tagged import arrays, leaves, scalars, texts, values

likes: list[st.SearchStrategy[Any]] = [
    st.floats(),
    st.booleans(),
    st.integers(),
    st.integers(-3, 3),
    texts,
    st.sampled_from([None, "success", "timeout"]),
    st.sampled_from([True, 1, 0, False, None, "1", -0.0, 0.0, 1.0]),
    scalars,
    st.floats(width=32).map(np.float32),
    arrays,
    st.lists(st.floats(), min_size=3, max_size=3).map(np.array),
    st.floats().map(np.array),
    st.lists(st.floats(), max_size=2),
    st.tuples(st.integers(), texts),
    st.dictionaries(st.sampled_from(["distance", "ä", "$x"]), leaves, max_size=2),
    st.fixed_dictionaries({"pose": st.fixed_dictionaries({"z": st.floats(), "x": st.floats()})}),
    values,
]
# Alike, few and repeated rows, rows without any pattern, and rows that repeat one.
rows = st.one_of(
    *(st.lists(like, max_size=40) for like in likes),
    st.lists(values, max_size=10),
    st.sampled_from(likes).flatmap(lambda like: like.map(lambda value: [value] * 40)),
    st.tuples(st.integers(), st.integers(), st.integers(0, 40)).map(
        lambda start: [start[0] + start[1] * i for i in range(start[2])]
    ),
)


def written(values: list[Any]) -> tuple[Any, dict[str, bytes]]:
    writer = ColumnWriter(inline_bytes=64)
    column = writer.column(values, "rows")
    return json.loads(canonical_bytes(column)), writer.files


def read(column: Any, count: int, files: dict[str, bytes]) -> list[Any]:
    return list(ColumnReader(files.__getitem__).column(column, count, "rows"))


@thorough
@given(rows)
def test_rows_come_back_exactly(values: list[Any]) -> None:
    column, files = written(values)
    assert_same(values, read(column, len(values), files))


@pytest.mark.parametrize(
    ("values", "form"),
    [
        (list(range(5, 105, 2)), "range"),
        ([False] * 49 + [True], "runs"),
        ([0.0] * 50, "runs"),
        ([float(i % 7) / 3 for i in range(50)], "array"),
        ([np.float32(i) for i in range(50)], "array"),
        ([np.full(3, i) for i in range(50)], "array"),
        ([np.zeros(3)] * 50, "repeat"),
        ([None] * 49 + ["success"], "choices"),
        ([True, 1] * 25, "choices"),
        ([{"distance": i / 3} for i in range(50)], "dict"),
        ([{}] * 50, "dict"),
        ([[i, i / 3] for i in range(50)], "list"),
        ([(i,) for i in range(50)], "tuple"),
        ([{1: i} for i in range(50)], "inline"),
        ([{str(i): i} for i in range(50)], "inline"),
        ([f"text {i}" for i in range(50)], "inline"),
        ([0, 0.5] * 25, "inline"),
        ([2**64 + i * i for i in range(50)], "inline"),
    ],
)
def test_each_kind_of_row_has_its_form(values: list[Any], form: str) -> None:
    column, files = written(values)
    assert form in column
    assert_same(values, read(column, len(values), files))


def test_a_column_of_numbers_is_hardly_larger_than_the_numbers() -> None:
    rng = np.random.default_rng(1)
    values = [{"q": rng.normal(size=7), "d": float(rng.random())} for _ in range(2000)]
    column, files = written(values)
    size = len(canonical_bytes(column)) + sum(map(len, files.values()))
    assert size < 1.01 * 2000 * 8 * 8


def test_equal_numbers_of_other_bits_are_kept_apart() -> None:
    values = [0.0] * 30 + [-0.0] * 30
    assert_same(values, read(*written(values)[:1], 60, {}))


ROWS = {"array": {"$array": ["<f8", [2], "AAAAAAAA8D8AAAAAAAAAQA=="]}}


@pytest.mark.parametrize(
    "column",
    [
        None,
        [],
        {},
        {"what": 1},
        {"inline": 1},
        {"inline": [1]},
        {"inline": {"a": 1, "b": 2}},
        {"range": [1]},
        {"range": [1, 0]},
        {"range": ["a", 1]},
        {"range": [0.5, 1]},
        {"runs": [[1, 1]]},
        {"runs": [[1, 3], [1, -1]]},
        {"runs": [[1, "2"]]},
        {"runs": [[1, 2, 3]]},
        {**ROWS},
        {**ROWS, "as": "bool"},
        {**ROWS, "as": "int"},
        {**ROWS, "as": "what"},
        {"array": [1.5, 2.5], "as": "float"},
        {"array": {"$array": ["<f8", [1, 2], "AAAAAAAA8D8AAAAAAAAAQA=="]}, "as": "float"},
        {"array": {"$array": ["<f8", [], "AAAAAAAA8D8="]}, "as": "rows"},
        {"array": {"$array": ["<f8", [1], "AAAAAAAA8D8="]}, "as": "rows"},
        {"repeat": 1},
        {"choices": ["a", "b"]},
        {"choices": [], "codes": {"inline": [0, 0]}},
        {"choices": ["a", "b"], "codes": {"inline": [0, 7]}},
        {"choices": ["a", "b"], "codes": {"inline": [0, "1"]}},
        {"choices": ["a", "b"], "codes": {"inline": [0]}},
        {"dict": []},
        {"dict": [{"keys": ["a"], "columns": []}]},
        {"dict": [{"keys": [["a"]], "columns": [{"inline": [1, 2]}]}]},
        {"dict": [{"keys": ["a"], "columns": [{"inline": [1]}]}]},
        {"dict": [{"keys": [], "columns": []}] * 2},
        {"dict": [{"keys": [], "columns": []}] * 2, "which": {"inline": [0, 2]}},
        {"list": [{"columns": []}]},
        {"tuple": 5},
    ],
)
def test_what_is_no_column_of_two_rows_is_refused(column: Any) -> None:
    with pytest.raises(RecordError):
        read(column, 2, {})


@pytest.mark.parametrize(
    ("column", "count"),
    [
        ({"runs": [[0, 10**12]]}, 10**12),
        ({"range": [0, 1]}, 10**12),
        ({"choices": ["a"]}, MAX_CELLS + 1),
        ({"dict": [{"keys": [], "columns": []}]}, MAX_CELLS + 1),
        ({"repeat": {"$array": ["|u1", [1000], "A" * 1332 + "AA=="]}}, 10**6),
        ({"dict": [{"keys": ["a"] * 50, "columns": [{"range": [0, 1]}] * 50}]}, 10**6),
    ],
)
def test_few_bytes_cannot_ask_for_much_memory(column: Any, count: int) -> None:
    with pytest.raises(RecordError, match="at most"):
        read(column, count, {})


def test_naming_one_large_array_many_times_is_refused() -> None:
    writer = ColumnWriter()
    name = writer.put(np.zeros(10**6))
    with pytest.raises(RecordError, match="at most"):
        read({"inline": [name] * 100}, 100, writer.files)


def test_more_than_a_record_can_hold_is_refused_when_saving() -> None:
    with pytest.raises(RecordError, match="at most") as caught:
        ColumnWriter().column([None] * (MAX_CELLS + 1), "steps")
    assert caught.value.fix


def test_more_steps_than_a_record_can_hold_are_refused_when_saving_and_when_reading() -> None:
    files: dict[str, bytes] = {}
    values = {"t": list(range(MAX_ROWS))}
    table = ColumnWriter().table(MAX_ROWS, values, "steps")
    assert len(ColumnReader(files.__getitem__).table(table, "steps")["t"]) == MAX_ROWS
    with pytest.raises(RecordError, match="at most") as caught:
        ColumnWriter().table(MAX_ROWS + 1, {"t": [*values["t"], 0]}, "steps")
    assert caught.value.fix
    with pytest.raises(RecordError, match="at most"):
        ColumnReader(files.__getitem__).table({**table, "count": MAX_ROWS + 1}, "steps")
