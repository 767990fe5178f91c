"""Columns are .npy files as numpy writes them, read without trusting what their header says."""

from __future__ import annotations

import io
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from grader_service.errors import RecordError
from grader_service.records.npy import npy_array, npy_bytes
from tests.records.examples import assert_same, thorough
from tests.records.test_tagged import arrays


def numpy_bytes(array: Any, version: tuple[int, int] = (1, 0)) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, version=version, allow_pickle=True)
    return buffer.getvalue()


@thorough
@given(arrays)
def test_numpy_reads_what_is_written_and_the_other_way_round(array: Any) -> None:
    assert_same(np.load(io.BytesIO(npy_bytes(array)), allow_pickle=False), array)
    assert_same(npy_array(npy_bytes(array), "it"), array)
    assert_same(npy_array(numpy_bytes(array), "it"), array)


def test_arrays_in_column_order_are_read_too() -> None:
    array = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    assert b"'fortran_order': True" in numpy_bytes(array)
    assert (npy_array(numpy_bytes(array), "it") == array).all()


def test_an_array_read_can_be_written_to() -> None:
    array = npy_array(npy_bytes(np.zeros(3)), "it")
    array[:] = 1.0
    assert array.sum() == 3.0


GOOD = npy_bytes(np.zeros((3, 2)))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK\x03\x04",
        GOOD[:5],
        GOOD[:64],
        GOOD[:-1],
        GOOD + b"\x00",
        GOOD.replace(b"(3, 2)", b"(2, 2)"),
        GOOD.replace(b"(3, 2)", b"(3 2)"),
        GOOD.replace(b"(3, 2)", b"[3, 2]"),
        GOOD.replace(b"<f8", b"|O8"),
        GOOD.replace(b"<f8", b"|V8"),
        GOOD.replace(b"<f8", b"<f9"),
        GOOD.replace(b"<f8", b"<q8"),
        GOOD.replace(b"<f8", b"|a8"),
        GOOD.replace(b"<f8", b"\xfff8"),
        GOOD.replace(b"'<f8'", b"'<f8', 'x': 1"),
        GOOD.replace(b"\x01\x00", b"\x02\x00", 1),
        numpy_bytes(np.array([{}], dtype=object)),
        numpy_bytes(np.zeros(2, dtype=[("a", "f8")])),
        numpy_bytes(np.zeros(3), version=(2, 0)),
        npy_bytes(np.zeros(2, bool)).replace(b"\x00\x00", b"\x02\x00"),
        GOOD.replace(b"(3, 2), }", b"(" + b"1, " * 60 + b"6), }"),
    ],
)
def test_what_is_no_plain_array_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError):
        npy_array(data, "it")


def test_a_header_that_promises_gigabytes_costs_none() -> None:
    small = npy_bytes(np.zeros((3, 2)))
    header = small[:128].replace(b"(3, 2), }" + b" " * 12, b"(99999999999, 999999), }"[:21])
    for bomb in (header + small[128:], small.replace(b"(3, 2), }   ", b"(3, 99999), }")):
        tracemalloc.start()
        with pytest.raises(RecordError):
            npy_array(bomb, "it")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1_000_000
