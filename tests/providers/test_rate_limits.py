from __future__ import annotations

from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from grader_service.errors import TryLaterError
from grader_service.providers.failures import Refusal, refused
from grader_service.providers.rate_limits import RateLimit, rate_limits, wait_s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from grader_service.providers.base import Ask, Provider


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120ms", 0.12),
        ("1s", 1.0),
        ("1m30s", 90.0),
        ("2m59.56s", 179.56),
        ("6h0m0s", 900.0),
        ("1d", 900.0),
        ("0s", 0.0),
        ("250us", 0.00025),
        ("17", 17.0),
        ("999999999h", 900.0),
    ],
)
def test_a_reset_of_openai_is_a_duration(text: str, seconds: float) -> None:
    headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": text}
    [limit] = rate_limits(headers)
    assert (limit.name, limit.remaining) == ("requests", 0)
    assert limit.reset_s == pytest.approx(seconds)


def test_a_reset_of_anthropic_is_a_time() -> None:
    at = datetime.now(UTC) + timedelta(seconds=60)
    headers = {
        "anthropic-ratelimit-input-tokens-remaining": "12000",
        "anthropic-ratelimit-input-tokens-reset": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": "2015-10-21T07:28:00Z",
    }
    tokens, requests = rate_limits(headers)
    assert (tokens.name, tokens.remaining) == ("input-tokens", 12000)
    assert 0 < tokens.reset_s <= 60
    assert requests == RateLimit("requests", 0, 0.0)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-ratelimit-remaining-requests": "0"},
        {"x-ratelimit-remaining-requests": "some", "x-ratelimit-reset-requests": "1s"},
        {"x-ratelimit-remaining-requests": "9" * 5000, "x-ratelimit-reset-requests": "1s"},
        {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "soon"},
        {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1s" * 9 + "x"},
        {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "-1s"},
        {"anthropic-ratelimit-x-remaining": "0", "anthropic-ratelimit-x-reset": "tomorrow"},
        {"anthropic-ratelimit-x-remaining": "0", "anthropic-ratelimit-x-reset": "9999"},
        {"x-ratelimit-limit-requests": "100"},
    ],
)
def test_headers_that_say_nothing_usable_are_left_out(headers: dict[str, str]) -> None:
    assert rate_limits(headers) == ()


def test_only_what_is_used_up_is_waited_for() -> None:
    some, none, later = RateLimit("a", 1, 60), RateLimit("b", 0, 2), RateLimit("c", -1, 5)
    assert wait_s([some]) is None
    assert wait_s([some, none, later]) == 5


def test_a_rate_limited_request_waits_for_the_reset_where_no_retry_after_is_said() -> None:
    headers = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m30s"}
    error = refused(Refusal(429, None, headers=headers), request_id=None, secret="")
    assert isinstance(error, TryLaterError)
    assert error.retry_after == 90.0
    told = refused(Refusal(429, None, headers=headers | {"retry-after": "2"}), **_UNKNOWN)
    assert isinstance(told, TryLaterError)
    assert told.retry_after == 2.0


_UNKNOWN: Any = {"request_id": None, "secret": ""}


class _Endpoint(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("X-RateLimit-Remaining-Requests", "0")
        self.send_header("X-RateLimit-Reset-Requests", "6m0s")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def endpoint() -> Iterator[str]:
    """The base_url of an endpoint whose every answer uses up its limit."""
    with HTTPServer(("127.0.0.1", 0), _Endpoint) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


def test_an_answer_tells_what_its_headers_do(
    connect: Callable[..., Provider], make_ask: Callable[..., Ask], endpoint: str
) -> None:
    answer = connect("openai", base_url=endpoint).ask(make_ask())
    assert answer.rate_limits == (RateLimit("requests", 0, 360.0),)
