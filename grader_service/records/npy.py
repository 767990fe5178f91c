"""Arrays as bytes of .npy files, version 1.0, read without trusting their header."""

from __future__ import annotations

import re
from typing import Literal

import numpy as np

from grader_service.errors import RecordError
from grader_service.records.tagged import plain_array
from grader_service.records.trial import Array

_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(
    rb"\{'descr': '([^']{1,24})', "
    rb"'fortran_order': (True|False), "
    rb"'shape': \(((?:\d{1,18}(?:, \d{1,18}){0,63},?)?)\), \} *\n"
)


def npy_bytes(array: Array) -> bytes:
    """Return `array`, in C order, as the bytes of a .npy file."""
    shape = tuple(int(size) for size in array.shape)
    header = f"{{'descr': '{array.dtype.str}', 'fortran_order': False, 'shape': {shape}, }}"
    # The data starts at a multiple of 64 bytes; the header ends in a line feed.
    padding = -(len(_MAGIC) + 2 + len(header) + 1) % 64
    text = header.encode("ascii") + b" " * padding + b"\n"
    # Times have no buffer; others are copied once, not twice.
    values = array.tobytes() if array.dtype.kind in "mM" else np.ascontiguousarray(array).data
    return b"".join((_MAGIC, len(text).to_bytes(2, "little"), text, values))


def npy_array(data: bytes, where: str) -> Array:
    """Return the array in a .npy file of plain values, writable. Raises RecordError."""
    start = len(_MAGIC) + 2
    end = start + int.from_bytes(data[len(_MAGIC) : start], "little")
    header = _HEADER.fullmatch(data[start:end])
    if not data.startswith(_MAGIC) or header is None:
        raise RecordError(f"{where} is no .npy file, version 1.0, of plain values")
    name, fortran_order, sizes = (part.decode("latin-1") for part in header.groups())
    shape = [int(size) for size in sizes.replace(",", " ").split()]
    order: Literal["C", "F"] = "F" if fortran_order == "True" else "C"
    return plain_array(name, shape, memoryview(data)[end:], where, order)
