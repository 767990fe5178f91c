"""Arrays saved by numpy as frames."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from grader_service.errors import FrameError
from grader_service.judging.npy import read_header, read_pixels

PICTURE = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)


def saved(array: npt.NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def with_header(header: str, values: bytes = bytes(48 * 64), version: int = 1) -> bytes:
    size = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + size + header.encode() + values


def header_of(
    descr: str = "'|u1'", shape: str = "(48, 64)", fortran_order: str = "False", more: str = ""
) -> str:
    return f"{{'descr': {descr}, 'fortran_order': {fortran_order}, 'shape': {shape}{more}}}\n"


@pytest.mark.parametrize(
    ("array", "pixels"),
    [
        (PICTURE, PICTURE),
        (PICTURE.transpose(2, 0, 1), PICTURE),
        (np.asfortranarray(PICTURE), PICTURE),
        (PICTURE[:, :, 0], PICTURE[:, :, 0]),
        (PICTURE[:, :, :1], PICTURE[:, :, 0]),
        (PICTURE[None, :, :, 0], PICTURE[:, :, 0]),
        (np.dstack([PICTURE, PICTURE[:, :, 0]]), np.dstack([PICTURE, PICTURE[:, :, 0]])),
        (PICTURE / np.float32(255), PICTURE),
        (PICTURE / np.float64(255), PICTURE),
        ((PICTURE / np.float32(255)).astype(">f4"), PICTURE),
        ((PICTURE / 255).astype(np.float16), PICTURE),
    ],
    ids=["hwc", "chw", "fortran", "hw", "hw1", "1hw", "rgba", "f4", "f8", "big-endian", "f2"],
)
def test_a_picture_is_read_whatever_its_layout_and_type(
    array: npt.NDArray[Any], pixels: npt.NDArray[np.uint8]
) -> None:
    found = read_pixels(saved(array))
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, pixels)
    header = read_header(saved(array))
    assert (header.width, header.height) == (64, 48)


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros((2, 48, 64, 3), np.uint8), "no single picture"),
        (np.zeros(3072, np.uint8), "no single picture"),
        (np.zeros((48, 64, 2), np.uint8), "no single picture"),
        (np.zeros((5, 48, 64), np.uint8), "no single picture"),
        (np.array(1.0), "no single picture"),
        (np.zeros((48, 64, 3), np.uint16), "uint16"),
        (np.zeros((48, 64), np.int64), "int64"),
        (np.zeros((48, 64), np.complex64), "complex64"),
        (np.zeros((48, 64), np.bool_), "mask"),
        (np.zeros((48, 64), [("r", "u1"), ("g", "u1")]), "holds"),
        (np.zeros((48, 64), "S3"), "holds"),
        (np.zeros((48, 64), "M8[s]"), "datetime"),
        (np.array([[{}]]), "pickled"),
        (np.zeros((48, 0), np.uint8), "bytes"),
    ],
)
def test_an_array_that_is_no_picture_is_refused_by_its_header(
    array: npt.NDArray[Any], said: str
) -> None:
    with pytest.raises(FrameError, match=said) as caught:
        read_header(saved(array))
    assert caught.value.fix


@pytest.mark.parametrize(
    ("value", "said"),
    [(1.0001, "0 and 1.0001"), (-0.5, "-0.5"), (np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "-inf")],
)
def test_floats_outside_0_to_1_are_refused_and_not_guessed(value: float, said: str) -> None:
    array = np.zeros((48, 64))
    array[3, 4] = value
    with pytest.raises(FrameError, match=said):
        read_pixels(saved(array))


@pytest.mark.parametrize("change", [-1, 1])
def test_a_file_with_a_byte_too_few_or_too_many_is_refused(change: int) -> None:
    data = saved(PICTURE)
    with pytest.raises(FrameError, match="another number of bytes"):
        read_header(data[:-1] if change < 0 else data + b"\0")


def test_headers_of_version_2_are_read() -> None:
    assert read_header(with_header(header_of(), version=2)).width == 64


@pytest.mark.parametrize(
    "data",
    [
        b"\x93NUMPY",
        b"\x93NUMPY\x01\x00\xff\xff",
        with_header(header_of(), version=3),
        with_header(header_of(), version=9),
        with_header(""),
        with_header("[]"),
        with_header("(" * 9000),
        with_header("-" * 9000 + "1"),
        with_header(header_of() + "'"),
        with_header(header_of(more=", 'x': 1")),
        with_header(header_of(more=", 1: 1")),
        with_header(header_of(shape="[48, 64]")),
        with_header(header_of(shape="(1e3, 64)")),
        with_header(header_of(shape="(48, 64)" + " " * 20_000)),
        with_header(header_of(fortran_order="1")),
        with_header(header_of(descr="'nonsense'")),
        with_header(header_of(descr="[('a', 'u1', -1)]")),
        with_header(header_of(descr="__import__('os').system('false')")),
        with_header(header_of(shape=f"(0x{'f' * 5000}, 64)")),
        with_header(header_of(shape=f"(0, 0x{'f' * 5000})"), b""),
        with_header(header_of(shape="(30000000000,)")),
        with_header(header_of(shape="(-48, 64)")),
    ],
)
def test_a_header_that_lies_or_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(FrameError) as caught:
        read_header(data)
    assert caught.value.fix
