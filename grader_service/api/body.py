"""Reading request bodies: every limit is checked while the bytes come in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.requests import ClientDisconnect, Request

from grader_service.errors import InputError, MediaTypeError, TooLargeError, UsageError

if TYPE_CHECKING:
    # Only there for type checkers.
    from python_multipart.multipart import MultipartCallbacks


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one request body."""

    body_bytes: int = 64_000_000
    part_bytes: int = 32_000_000
    parts: int = 64
    seconds: float = 60.0


async def read_parts(request: Request, limits: Limits) -> dict[str, bytes]:
    """Read a multipart/form-data body and return its parts by name.

    Raises MediaTypeError (415), TooLargeError (413), UsageError (400) for what is no multipart
    body, InputError (422) for a part that comes twice.
    """
    encoding = request.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise MediaTypeError(
            f"Content-Encoding {encoding} is not taken", fix="send the body uncompressed"
        )
    content_type, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary")
    if content_type != b"multipart/form-data" or not boundary:
        raise MediaTypeError(
            "the body is not multipart/form-data",
            fix="send a part 'trial' (JSON) and the parts that it names; see /docs",
        )
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limits.body_bytes:
        raise _too_large(limits)
    reader = _Reader(limits)
    try:
        parser = MultipartParser(boundary, reader.callbacks())
        async with asyncio.timeout(limits.seconds):
            async for chunk in _capped(request, limits):
                parser.write(chunk)
        parser.finalize()
    except FormParserError as error:
        raise UsageError(
            f"the multipart body is broken: {error}", fix="send every part whole"
        ) from error
    except TimeoutError as error:
        raise UsageError(
            f"the body did not arrive within {limits.seconds:.0f} s", fix="send it again, faster"
        ) from error
    except ClientDisconnect as error:
        raise UsageError("the client went away before the body was whole") from error
    if not reader.ended:
        raise UsageError("the multipart body ends before its last part does")
    return reader.parts


async def _capped(request: Request, limits: Limits) -> AsyncIterator[bytes]:
    total = 0
    async for chunk in request.stream():
        total += len(chunk)
        if total > limits.body_bytes:
            raise _too_large(limits)
        yield chunk


def _too_large(limits: Limits) -> TooLargeError:
    return TooLargeError(
        f"the body is over {limits.body_bytes} bytes",
        fix="send fewer or smaller frames: first and last of each camera are enough",
    )


class _Reader:
    """Collects parts from the parser's callbacks."""

    def __init__(self, limits: Limits) -> None:
        self.parts: dict[str, bytes] = {}
        self.ended = False
        self._limits = limits
        self._header = bytearray()
        self._value = bytearray()
        self._name: str | None = None
        self._data = bytearray()

    def callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._begin,
            "on_header_field": lambda data, start, end: self._header.extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
            "on_header_end": self._header_end,
            "on_part_data": self._part_data,
            "on_part_end": self._part_end,
            "on_end": self._end,
        }

    def _begin(self) -> None:
        if len(self.parts) >= self._limits.parts:
            raise TooLargeError(
                f"the body has more than {self._limits.parts} parts",
                fix="send first and last frames only",
            )
        self._name = None
        self._data = bytearray()

    def _header_end(self) -> None:
        if bytes(self._header).lower() == b"content-disposition":
            _, options = parse_options_header(bytes(self._value))
            name = options.get(b"name")
            self._name = None if name is None else name.decode("utf-8", "replace")
        self._header.clear()
        self._value.clear()

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if len(self._data) + end - start > self._limits.part_bytes:
            raise TooLargeError(
                f"the part {self._name!r} is over {self._limits.part_bytes} bytes",
                fix="send a smaller frame or record",
            )
        self._data.extend(data[start:end])

    def _part_end(self) -> None:
        if not self._name:
            raise UsageError("a part has no name", fix='give each part a name="…"')
        if self._name in self.parts:
            raise InputError(f"the part {self._name!r} comes twice", fix="send each part once")
        self.parts[self._name] = bytes(self._data)

    def _end(self) -> None:
        self.ended = True
