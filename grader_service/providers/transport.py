"""The HTTP client that the SDKs are given: every wait bounded, nothing taken from the environment.

A read timeout bounds one read, so a server that sends a byte now and then can hold a call for
ever. Here the deadline of a call bounds each wait on its socket, in whichever phase.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, cast

import httpcore2
import httpx2

if TYPE_CHECKING:
    import ssl

    from httpcore2 import SOCKET_OPTION

CONNECT_S: Final = 10.0
MAX_ERROR_BYTES: Final = 65_536

# What goes wrong below HTTP, seen while a request is sent or a body is read.
TRANSPORT_ERRORS: Final = (
    httpx2.TransportError,
    httpcore2.TimeoutException,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
)
TIMEOUTS: Final = (httpx2.TimeoutException, httpcore2.TimeoutException)

_SENT: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "anthropic-version",
        "connection",
        "content-length",
        "content-type",
        "host",
        "user-agent",
    }
)

_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)


class RefusedError(Exception):
    """A response whose status is not 2xx, with as much of its body as came in time and bounds."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.headers = headers
        self.body = body


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Bound every wait of this thread's calls by `seconds` from now."""
    token = _deadline.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _deadline.reset(token)


def time_left() -> float | None:
    """Return the seconds until the deadline, None without one. Raises ReadTimeout after it."""
    at = _deadline.get()
    if at is None:
        return None
    left = at - time.monotonic()
    if left <= 0:
        raise httpcore2.ReadTimeout("the deadline of the call has passed")
    return left


def http_client(*, tls: bool, max_connections: int, auth: Mapping[str, str]) -> httpx2.Client:
    """Return a client that sends the `auth` headers, follows nothing and reads no environment.

    Without `tls` it can't reach https addresses, and saves the time to load the authorities.
    """

    def only_ours(request: httpx2.Request) -> None:
        # The SDKs add headers from variables such as OPENAI_CUSTOM_HEADERS and OPENAI_ORG_ID.
        for name in list(request.headers):
            if name not in _SENT and not name.startswith("x-stainless-"):
                del request.headers[name]
        request.headers.update(auth)

    return httpx2.Client(
        transport=_Transport(max_connections, tls=tls),
        follow_redirects=False,
        trust_env=False,
        event_hooks={"request": [only_ours], "response": [_refuse]},
    )


def _refuse(response: httpx2.Response) -> None:
    """Raise RefusedError unless the status is 2xx: the SDKs would read an error body whole."""
    if response.is_success:
        return
    body = bytearray()
    try:
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) > MAX_ERROR_BYTES:
                break
    except (*TRANSPORT_ERRORS, httpx2.DecodingError):
        pass  # the status says enough
    raise RefusedError(response.status_code, response.headers, bytes(body[:MAX_ERROR_BYTES]))


class _Transport(httpx2.BaseTransport):
    def __init__(self, max_connections: int, *, tls: bool) -> None:
        self._pool = httpcore2.ConnectionPool(
            ssl_context=httpx2.create_ssl_context(trust_env=False) if tls else None,
            max_connections=max_connections,
            max_keepalive_connections=max_connections,
            keepalive_expiry=5.0,
            network_backend=_Backend(),
        )

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        response = self._pool.handle_request(
            httpcore2.Request(
                method=request.method,
                url=httpcore2.URL(
                    scheme=request.url.raw_scheme,
                    host=request.url.raw_host,
                    port=request.url.port,
                    target=request.url.raw_path,
                ),
                headers=request.headers.raw,
                content=cast("httpx2.SyncByteStream", request.stream),
                extensions=request.extensions,
            )
        )
        return httpx2.Response(
            response.status,
            headers=response.headers,
            stream=_Body(cast("_ClosableStream", response.stream)),
            extensions=response.extensions,
        )

    def close(self) -> None:
        self._pool.close()


class _ClosableStream(Iterable[bytes]):
    def close(self) -> None: ...


class _Body(httpx2.SyncByteStream):
    def __init__(self, stream: _ClosableStream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        yield from self._stream

    def close(self) -> None:
        self._stream.close()


class _Backend(httpcore2.SyncBackend):
    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        left = time_left() or timeout or CONNECT_S
        return _Stream(
            super().connect_tcp(host, port, min(left, CONNECT_S), local_address, socket_options)
        )


class _Stream(httpcore2.NetworkStream):
    """A connection each of whose waits ends at the deadline of the call that waits."""

    def __init__(self, stream: httpcore2.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, time_left() or timeout)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, time_left() or timeout)

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        left = time_left() or timeout
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    def close(self) -> None:
        self._stream.close()
