"""Just enough HTTP/1.1 for a stub: requests read from a stream, responses written well or badly."""

from __future__ import annotations

import asyncio
import socket
import struct
import zlib
from dataclasses import dataclass, replace
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grader_service.providers.stub.faults import Fault, Response

MAX_HEAD_BYTES: Final = 65_536
MAX_BODY_BYTES: Final = 64 * 2**20
_HUGE_BYTES: Final = 64 * 2**20


class HttpError(Exception):
    """A request that can't be read any further."""

    def __init__(self, status: int, problem: str) -> None:
        super().__init__(problem)
        self.status = status


@dataclass(frozen=True, slots=True)
class HttpRequest:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


async def read(reader: asyncio.StreamReader) -> HttpRequest | None:
    """Return the next request, None when the client has gone. Raises HttpError."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    except asyncio.LimitOverrunError:
        raise HttpError(431, "the head is too long") from None
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    try:
        method, target, _ = first.split(" ")
        pairs = [line.split(":", 1) for line in lines]
        headers = {name.strip().lower(): value.strip() for name, value in pairs}
        length = int(headers.get("content-length", "0"))
    except ValueError:
        raise HttpError(400, "the head is no HTTP/1.1") from None
    if "transfer-encoding" in headers:
        raise HttpError(411, "a body needs a Content-Length")
    if not 0 <= length <= MAX_BODY_BYTES:
        raise HttpError(413, "the body is too large")
    try:
        body = await reader.readexactly(length)
    except asyncio.IncompleteReadError:
        return None
    return HttpRequest(method, target.partition("?")[0], headers, body)


async def write(writer: asyncio.StreamWriter, response: Response) -> None:
    writer.write(_head(response, len(response.body)) + response.body)
    await writer.drain()


async def write_badly(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, fault: Fault, response: Response
) -> None:
    """Send `response` as a transport fault has it. The connection can't be used afterwards."""
    response = replace(response, status=int(fault.options.get("status", "200")))
    body = response.body
    head = _head(response, len(body))
    half = len(body) // 2
    match fault.name:
        case "hang":
            await reader.read()  # ends when the client goes
        case "rst":
            _reset(writer)
        case "rst_mid":
            writer.write(head + body[:half])
            await writer.drain()
            await asyncio.sleep(0.05)  # lets the first half arrive before the reset discards it
            _reset(writer)
        case "short":
            writer.write(head + body[:half])
            await writer.drain()
        case "close":
            pass
        case "drip" | "drip_head":
            done = len(head) if fault.name == "drip" else 0
            writer.write(head[:done])
            for byte in (head + body)[done:]:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(float(fault.argument or 0.1))
        case "huge":
            writer.write(_head(response, _HUGE_BYTES) + b'{"pad": "')
            for _ in range(_HUGE_BYTES // 65_536):
                writer.write(b"x" * 65_536)
                await writer.drain()
        case _:
            bomb = _bomb()
            writer.write(_head(response, len(bomb), "content-encoding: gzip\r\n") + bomb)
            await writer.drain()


def _head(response: Response, length: int, more: str = "") -> bytes:
    reason = HTTPStatus(response.status).phrase if response.status in _STATUSES else "Unknown"
    lines = "".join(f"{name}: {value}\r\n" for name, value in response.headers.items())
    return (
        f"HTTP/1.1 {response.status} {reason}\r\ncontent-type: {response.content_type}\r\n"
        f"content-length: {length}\r\n{lines}{more}\r\n"
    ).encode("latin-1")


_STATUSES: Final = frozenset(HTTPStatus)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST instead of FIN."""
    connection: socket.socket = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@cache
def _bomb() -> bytes:
    """Return a huge JSON string as gzip: about 65 kB that grow to 64 MiB."""
    gzip = zlib.compressobj(wbits=31)
    grown = (b"x" * 65_536 for _ in range(_HUGE_BYTES // 65_536))
    parts = [gzip.compress(part) for part in (b'{"pad": "', *grown, b'"}')]
    return b"".join([*parts, gzip.flush()])
