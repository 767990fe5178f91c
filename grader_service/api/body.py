"""Reading request bodies: every limit is checked while the bytes come in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel
from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.requests import ClientDisconnect, Request

from grader_service.client.forms import validated
from grader_service.errors import (
    InputError,
    MediaTypeError,
    TooLargeError,
    TooSlowError,
    UsageError,
)
from grader_service.records.strict_json import parse_strict

if TYPE_CHECKING:
    # Only there for type checkers.
    from python_multipart.multipart import MultipartCallbacks


_FEWER_FRAMES = "send fewer or smaller frames: first and last of each camera are enough"

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one request body."""

    body_bytes: int = 64_000_000
    part_bytes: int = 32_000_000
    parts: int = 64
    json_bytes: int = 1_000_000
    seconds: float = 60.0


async def read_parts(request: Request, limits: Limits) -> dict[str, bytes]:
    """Read a multipart/form-data body and return its parts by name.

    Raises MediaTypeError (415), TooLargeError (413), UsageError (400) for what is no multipart
    body, InputError (422) for a part that comes twice.
    """
    _refuse_encodings(request)
    content_type, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary")
    if content_type != b"multipart/form-data" or not boundary:
        raise MediaTypeError(
            "the body is not multipart/form-data",
            fix="send a part 'trial' (JSON) and the parts that it names; see /docs",
        )
    reader = _Reader(limits)
    try:
        parser = MultipartParser(boundary, reader.callbacks())
        async with _in_time(limits):
            async for chunk in _capped(request, limits.body_bytes, _FEWER_FRAMES):
                reader.check_start(chunk)
                parser.write(chunk)
        parser.finalize()
    except FormParserError as error:
        raise UsageError(
            f"the multipart body is broken: {error}", fix="send every part whole"
        ) from error
    if not reader.ended:
        raise UsageError("the multipart body ends before its last part does")
    return reader.parts


async def read_json(request: Request, limits: Limits, model: type[Model]) -> Model:
    """Read a JSON body of a form.

    Raises MediaTypeError (415), TooLargeError (413), UsageError (400) for a body that does not come
    whole, InputError (422) for one of another form.
    """
    _refuse_encodings(request)
    content_type, _ = parse_options_header(request.headers.get("content-type", ""))
    if content_type != b"application/json":
        raise MediaTypeError("the body is not application/json", fix="send JSON; see /docs")
    body = bytearray()
    async with _in_time(limits):
        async for chunk in _capped(request, limits.json_bytes, "send less text"):
            body += chunk
    return validated(model, parse_strict(bytes(body), what="the body"), what="the body")


def openapi_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return what a route that uses `read_json` says of its body in the OpenAPI document."""
    schema = {"schema": model.model_json_schema()}
    return {"requestBody": {"required": True, "content": {"application/json": schema}}}


def _refuse_encodings(request: Request) -> None:
    encoding = request.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise MediaTypeError(
            f"Content-Encoding {encoding} is not taken", fix="send the body uncompressed"
        )


@asynccontextmanager
async def _in_time(limits: Limits) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(limits.seconds):
            yield
    except TimeoutError as error:
        raise TooSlowError(
            f"the body did not arrive within {limits.seconds:.0f} s", fix="send it again, faster"
        ) from error
    except ClientDisconnect as error:
        raise UsageError("the client went away before the body was whole") from error


async def _capped(request: Request, most: int, fix: str) -> AsyncIterator[bytes]:
    too_large = TooLargeError(f"the body is over {most} bytes", fix=fix)
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > most:
        raise too_large
    total = 0
    async for chunk in request.stream():
        total += len(chunk)
        if total > most:
            raise too_large
        yield chunk


class _Reader:
    """Collects parts from the parser's callbacks."""

    def __init__(self, limits: Limits) -> None:
        self.parts: dict[str, bytes] = {}
        self.ended = False
        self._started = False
        self._limits = limits
        self._header = bytearray()
        self._value = bytearray()
        self._name: str | None = None
        self._data = bytearray()

    def check_start(self, chunk: bytes) -> None:
        """Refuse a body with anything before its first boundary.

        The parser's reading of that depends on where chunks end, which is chance.
        """
        if chunk and not self._started and not chunk.startswith(b"-"):
            raise UsageError(
                "the multipart body does not begin with its boundary",
                fix="send nothing before the first part",
            )
        self._started = self._started or bool(chunk)

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
