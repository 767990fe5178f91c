"""Arrays saved by numpy (.npy) as frames: which of them are pictures, and their pixels."""

from __future__ import annotations

import io
import math
import tokenize
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy_format

from grader_service.errors import FrameError

MAGIC = npy_format.MAGIC_PREFIX
# Kind and size in bytes: longer floats differ between machines.
_VALUE_TYPES = frozenset({"u1", "f2", "f4", "f8"})

_SHAPE_FIX = "send one picture: (H, W), (H, W, C) or (C, H, W) with 1, 3 or 4 channels"
_VALUES_FIX = "scale the values to [0, 1], or save them as uint8"

# Version 3 only adds named fields, which no picture has.
_READERS = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}
# What numpy's reader raises for hostile headers. It parses them as Python literals, hence the
# errors of a parser; which one deep nesting gives differs between versions of Python.
_HEADER_ERRORS = (
    KeyError,
    ValueError,
    TypeError,
    SyntaxError,
    tokenize.TokenError,
    RecursionError,
    MemoryError,
    Warning,
)


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """How an array that is a picture lies in its file; `offset` is its first value, in bytes."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran_order: bool
    offset: int
    width: int
    height: int
    channels_first: bool


def read_header(data: bytes) -> NpyHeader:
    """Return the header of a .npy file that promises a picture and exactly the bytes it has.

    A picture is uint8 or float, shaped (H, W), (H, W, C) or (C, H, W) with C of 1, 3 or 4; no
    value is looked at. Raises FrameError for every other array.
    """
    stream = io.BytesIO(data)
    try:
        read = _READERS[npy_format.read_magic(stream)]
        shape, fortran_order, dtype = read(stream)
    except _HEADER_ERRORS as error:
        raise FrameError(
            "the .npy header can't be read", fix="save the array again with numpy.save"
        ) from error
    _check_dtype(dtype)
    offset = stream.tell()
    # Compared before anything is allocated, and before a length of thousands of digits could
    # get into a message.
    if 0 in shape or math.prod(shape) * dtype.itemsize != len(data) - offset:
        raise FrameError(
            f"the .npy header promises another number of bytes than the {len(data) - offset}"
            " that follow it",
            fix="send the whole file as numpy.save wrote it",
        )
    match shape:
        case (height, width) | (height, width, 1 | 3 | 4):
            channels_first = False
        case (1 | 3 | 4, height, width):
            channels_first = True
        case _:
            raise FrameError(f"an array of shape {shape} is no single picture", fix=_SHAPE_FIX)
    return NpyHeader(dtype, shape, fortran_order, offset, width, height, channels_first)


def read_pixels(data: bytes) -> npt.NDArray[np.uint8]:
    """Return the pixels of a .npy picture as uint8, shaped (H, W), (H, W, 3) or (H, W, 4).

    Floats are multiplied by 255 and rounded. Raises FrameError as `read_header` does, and for
    floats outside [0, 1]: their range could only be guessed.
    """
    header = read_header(data)
    values = np.frombuffer(data, header.dtype, offset=header.offset)
    array = values.reshape(header.shape, order="F" if header.fortran_order else "C")
    if header.channels_first:
        array = np.moveaxis(array, 0, -1)
    if array.shape[2:] == (1,):
        array = array[:, :, 0]
    if header.dtype.kind == "f":
        lowest, highest = float(array.min()), float(array.max())
        if math.isnan(lowest):
            raise FrameError("the array holds NaN", fix="send the camera's picture as it was taken")
        if lowest < 0.0 or highest > 1.0:
            raise FrameError(
                f"the float values lie between {lowest:g} and {highest:g}, not in [0, 1]",
                fix=_VALUES_FIX,
            )
        array = np.rint(np.multiply(array, 255, dtype=np.float32))
    return np.ascontiguousarray(array, dtype=np.uint8)


def _check_dtype(dtype: np.dtype[Any]) -> None:
    if dtype.hasobject:
        raise FrameError(
            "the .npy file holds pickled Python objects, which are never loaded",
            fix="save a plain numeric array",
        )
    if dtype == np.bool_:
        raise FrameError("the array is a mask of booleans", fix="send the camera's picture")
    if f"{dtype.kind}{dtype.itemsize}" not in _VALUE_TYPES:
        raise FrameError(
            f"the array holds {dtype.name}; a picture is uint8, or floats in [0, 1]",
            fix=_VALUES_FIX,
        )
