"""What is sent again while a service is away, by both clients, and what never is."""

from __future__ import annotations

import asyncio
import io
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest

from grader_service.cli.processes import free_port
from grader_service.client import calls
from grader_service.client.aio import AsyncClient
from grader_service.client.calls import Tries
from grader_service.client.http import Client
from grader_service.errors import AutograderError, UnavailableError, UsageError
from tests.client.conftest import serving

ANSWER = b'{"id": "t", "retried": 1, "verdicts": []}'
KEYED = {"kind": "robot", "run": "r", "client_id": "mine"}
UNKEYED = {"kind": "robot", "run": "r"}


@dataclass
class Flaky:
    """A server that is away for some requests, and answers those after them."""

    failures: int
    status: int = 503
    headers: tuple[tuple[bytes, bytes], ...] = ((b"retry-after", b"0"),)
    body: bytes = ANSWER
    asked: list[str] = field(default_factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        self.asked.append(scope["path"])
        while (await receive()).get("more_body"):
            pass
        away = len(self.asked) <= self.failures
        if away and self.status == 0:
            # The connection ends in the middle of the answer.
            headers = [(b"content-length", b"100")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            raise ConnectionResetError
        status = self.status if away else 200
        headers = list(self.headers) if away else []
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"{}" if away else self.body})


def with_sync(url: str, retry_s: float, call: Callable[[Any], Any]) -> Any:
    with Client(url, retry_s=retry_s) as client:
        return call(client)


def with_async(url: str, retry_s: float, call: Callable[[Any], Any]) -> Any:
    async def ask() -> Any:
        async with AsyncClient(url, retry_s=retry_s) as client:
            return await call(client)

    return asyncio.run(ask())


Using = Callable[[str, float, Callable[[Any], Any]], Any]


@pytest.fixture(params=[with_sync, with_async])
def using(request: pytest.FixtureRequest) -> Using:
    """Ask with either client."""
    way: Using = request.param
    return way


@pytest.fixture
def flaky(request: pytest.FixtureRequest) -> Iterator[tuple[Flaky, str]]:
    server = Flaky(**request.param)
    with serving(server) as url:
        yield server, url


AWAY = [{"failures": 2}, {"failures": 2, "status": 502}, {"failures": 1, "status": 0}]


@pytest.mark.parametrize("flaky", AWAY, indirect=True, ids=["503", "502", "cut"])
@pytest.mark.parametrize(
    "call", [lambda client: client.trial("t"), lambda client: client.submit(KEYED, {"f": b"x"})]
)
def test_reading_and_submitting_under_a_client_id_outlast_a_short_outage(
    flaky: tuple[Flaky, str], using: Using, call: Callable[[Any], Any]
) -> None:
    server, url = flaky
    assert using(url, 30, call)["id"] == "t"
    assert len(server.asked) == server.failures + 1


@pytest.mark.parametrize("flaky", AWAY, indirect=True, ids=["503", "502", "cut"])
@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.submit(UNKEYED, {}),
        lambda client: client.regrade("t"),
        lambda client: client.retry(),
        lambda client: client.cancel(run="r"),
    ],
)
def test_what_would_do_more_when_it_is_sent_twice_is_sent_once(
    flaky: tuple[Flaky, str], using: Using, call: Callable[[Any], Any]
) -> None:
    server, url = flaky
    with pytest.raises(UnavailableError):
        using(url, 30, call)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "flaky", [{"failures": 9, "status": s} for s in (500, 409, 422)], indirect=True
)
def test_an_answer_that_would_be_the_same_again_is_not_asked_for_again(
    flaky: tuple[Flaky, str], using: Using
) -> None:
    server, url = flaky
    with pytest.raises(AutograderError):
        using(url, 30, lambda client: client.trial("t"))
    assert len(server.asked) == 1


@pytest.mark.parametrize("flaky", [{"failures": 1}], indirect=True)
def test_without_being_told_to_wait_a_client_tells_of_an_outage_at_once(
    flaky: tuple[Flaky, str], using: Using
) -> None:
    server, url = flaky
    with pytest.raises(UnavailableError):
        using(url, 0, lambda client: client.trial("t"))
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "flaky", [{"failures": 9, "headers": ((b"retry-after", b"3600"),)}], indirect=True
)
def test_a_pause_that_is_longer_than_the_patience_is_not_begun(
    flaky: tuple[Flaky, str], using: Using
) -> None:
    server, url = flaky
    with pytest.raises(UnavailableError) as caught:
        using(url, 30, lambda client: client.trial("t"))
    assert caught.value.retry_after == 3600
    assert len(server.asked) == 1


def test_a_service_that_never_answers_is_given_up(using: Using) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(UnavailableError, match=url):
        using(url, 0.5, lambda client: client.trial("t"))


def archive(*names: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = 1
            tar.addfile(info, io.BytesIO(b"x"))
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["../up", "/etc/passwd", "a/../../up"])
def test_an_archive_that_would_write_elsewhere_is_no_answer_of_the_service(
    name: str, using: Using
) -> None:
    with (
        serving(Flaky(0, body=archive("record.json", name))) as url,
        pytest.raises(UnavailableError, match="is no autograder service"),
    ):
        using(url, 0, lambda client: client.files("t"))


@pytest.mark.parametrize("body", [b"", b"<html>", archive("a")[:600]])
def test_what_is_no_whole_archive_is_refused(body: bytes, using: Using) -> None:
    with (
        serving(Flaky(0, body=body)) as url,
        pytest.raises(UnavailableError, match="is no autograder service"),
    ):
        using(url, 0, lambda client: client.files("t"))


@pytest.mark.parametrize("url", ["http://host:abc", "http://[::1", "\x00"])
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_what_is_no_url_is_told_as_such(kind: type[Client | AsyncClient], url: str) -> None:
    with pytest.raises(UsageError, match="is no URL") as told:
        kind(url)
    assert told.value.exit_code == 2


def test_an_outage_may_last_for_any_number_of_tries() -> None:
    tries = Tries(calls.run("r"), "http://127.0.0.1:9", patience_s=1e9)
    failure = httpx2.ConnectError("refused")
    assert max(tries.pause(failure) for _ in range(2000)) <= 10


def test_an_archive_with_a_link_to_nowhere_is_no_answer_of_the_service() -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        link = tarfile.TarInfo("a")
        link.type, link.linkname = tarfile.SYMTYPE, "b"
        archive.addfile(link)
    response = httpx2.Response(200, content=data.getvalue())
    with pytest.raises(UnavailableError, match="no autograder service"):
        calls.files("t").result(response, "http://x")
