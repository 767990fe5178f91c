"""HTTP on a loopback port: one thread for each request, one request for each connection."""

from __future__ import annotations

import json
import math
import socketserver
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from grader_service.errors import AutograderError, TooLargeError, UnavailableError

_PROBLEMS: Final = "https://robot-autograder.invalid/problems/"
_MAX_BODY: Final = 64_000_000


@dataclass(frozen=True, slots=True)
class Request:
    """One request; `steps` are the parts of its path."""

    method: str
    path: str
    steps: tuple[str, ...]
    query: Mapping[str, list[str]]
    headers: Message
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Response:
    """What is answered."""

    status: int
    body: bytes = field(repr=False)
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


def json_response(value: Any, status: int = 200, **headers: str) -> Response:
    return Response(status, json.dumps(value).encode(), headers=headers)


def problem(error: AutograderError) -> Response:
    """Return an error as the service's problem document."""
    headers = {}
    if isinstance(error, UnavailableError):
        headers["Retry-After"] = str(math.ceil(error.retry_after))
    return problem_document(error.status, error.slug, error.message, error.fix, **headers)


def problem_document(
    status: int, slug: str, detail: str, fix: str | None, **headers: str
) -> Response:
    body = {
        "type": _PROBLEMS + slug,
        "title": slug.replace("-", " "),
        "status": status,
        "detail": detail,
    } | ({} if fix is None else {"fix": fix})
    return Response(status, json.dumps(body).encode(), "application/problem+json", headers)


class _TCP(socketserver.ThreadingTCPServer):
    # Not http.server's: that asks the name service what this machine is called.
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128


class Server:
    """Serves `answer`; keeps its port when it is stopped and started again."""

    def __init__(self, answer: Callable[[Request], Response]) -> None:
        self.port = 0
        self._handler = type("Handler", (_Handler,), {"answer": staticmethod(answer)})
        self._running: tuple[_TCP, threading.Thread] | None = None

    def start(self) -> None:
        """Listen, if it does not yet."""
        if self._running is not None:
            return
        server = _TCP(("127.0.0.1", self.port), self._handler)
        self.port = int(server.server_address[1])
        thread = threading.Thread(
            target=server.serve_forever, args=(0.005,), name="stub-service", daemon=True
        )
        thread.start()
        self._running = server, thread

    def stop(self) -> None:
        """Listen no more: whoever wants to connect is refused."""
        if self._running is not None:
            server, thread = self._running
            self._running = None
            server.shutdown()
            thread.join()
            server.server_close()


class _Handler(BaseHTTPRequestHandler):
    # HTTP/1.0 ends each connection with its answer, so that none outlives a stop of the server.
    protocol_version = "HTTP/1.0"
    answer: Callable[[Request], Response]

    def _respond(self) -> None:
        # Who went away is not waiting for an answer.
        with suppress(ConnectionError):
            response = self._answered()
            self.send_response(response.status)
            self.send_header("Content-Type", response.media_type)
            self.send_header("Content-Length", str(len(response.body)))
            for name, value in response.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(response.body)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _respond  # noqa: N815  (names of the base)

    def _answered(self) -> Response:
        length = int(self.headers.get("content-length") or 0)
        if length > _MAX_BODY:
            return problem(TooLargeError(f"the body is over {_MAX_BODY} bytes"))
        url = urlsplit(self.path)
        request = Request(
            method=self.command,
            path=url.path,
            steps=tuple(unquote(step) for step in url.path.split("/")[1:]),
            query=parse_qs(url.query, keep_blank_values=True),
            headers=self.headers,
            body=self.rfile.read(length),
        )
        return type(self).answer(request)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the base's name)
        """Say nothing: tests ask `requests`."""
