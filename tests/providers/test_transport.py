from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import httpcore2
import httpx2
import pytest

from grader_service.providers.transport import RefusedError, deadline, http_client, time_left

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Recorder(BaseHTTPRequestHandler):
    """Answers 200 to GET and 418 to POST, and remembers the headers as they came."""

    protocol_version = "HTTP/1.1"
    seen: list[list[tuple[str, str]]]

    def do_GET(self) -> None:
        self._answer(200)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self._answer(418)

    def _answer(self, status: int) -> None:
        self.seen.append([(name.lower(), value) for name, value in self.headers.items()])
        self.send_response(status)
        self.send_header("content-length", "6")
        self.send_header("retry-after", "3")
        self.end_headers()
        self.wfile.write(b"teapot")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def recorder() -> Iterator[tuple[str, list[list[tuple[str, str]]]]]:
    seen: list[list[tuple[str, str]]] = []
    handler = type("Handler", (_Recorder,), {"seen": seen})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", seen
        server.shutdown()
        thread.join()


@pytest.fixture
def client() -> Iterator[httpx2.Client]:
    auth = {"authorization": "Bearer ours"}
    with http_client(tls=False, max_connections=2, auth=auth) as client:
        yield client


def test_headers_that_are_not_ours_do_not_go_out_and_the_key_goes_once(
    client: httpx2.Client, recorder: tuple[str, list[list[tuple[str, str]]]]
) -> None:
    url, seen = recorder
    headers = [("Authorization", "Bearer other"), ("AUTHORIZATION", "x"), ("cookie", "a=b")]
    headers += [("openai-organization", "org"), ("traceparent", "00-1-1-00"), ("accept", "a/b")]
    client.get(url, headers=headers)
    names = [name for name, _ in seen[0]]
    assert [value for name, value in seen[0] if name == "authorization"] == ["Bearer ours"]
    assert {"cookie", "openai-organization", "traceparent"}.isdisjoint(names)
    assert "accept" in names


def test_a_status_that_is_no_success_is_raised_with_headers_and_body(
    client: httpx2.Client, recorder: tuple[str, list[list[tuple[str, str]]]]
) -> None:
    with pytest.raises(RefusedError) as caught:
        client.post(recorder[0], json={})
    refused = caught.value
    assert (refused.status, refused.body) == (418, b"teapot")
    assert refused.headers["Retry-After"] == "3"


def test_a_client_for_https_checks_certificates(
    recorder: tuple[str, list[list[tuple[str, str]]]],
) -> None:
    with (
        http_client(tls=True, max_connections=1, auth={}) as client,
        pytest.raises((httpcore2.ConnectError, httpcore2.ReadError)),
        deadline(5),
    ):
        client.get(recorder[0].replace("http:", "https:"))


def test_a_passed_deadline_stops_a_call_before_it_starts(
    client: httpx2.Client, recorder: tuple[str, list[list[tuple[str, str]]]]
) -> None:
    url, seen = recorder
    with deadline(0), pytest.raises(httpcore2.ReadTimeout):
        client.get(url)
    assert seen == []


def test_a_deadline_holds_inside_its_block_only() -> None:
    assert time_left() is None
    with deadline(60):
        left = time_left()
    assert left is not None
    assert 0 < left <= 60
    assert time_left() is None
