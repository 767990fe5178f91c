"""Reading a body: its limits are checked while it comes in, not when it is whole."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest
from starlette.requests import Request
from starlette.types import Message

from grader_service.api.body import Limits, read_parts
from grader_service.errors import AutograderError, TooLargeError, TooSlowError

HEAD = b'--b\r\nContent-Disposition: form-data; name="f0"\r\n\r\n'


class Body:
    """A request whose body comes in chunks; it counts those that were asked for."""

    def __init__(self, chunks: Iterable[bytes], *, pause_s: float = 0.0) -> None:
        self._chunks = iter(chunks)
        self._pause_s = pause_s
        self.asked = 0

    async def receive(self) -> Message:
        self.asked += 1
        await asyncio.sleep(self._pause_s)
        chunk = next(self._chunks, None)
        return {"type": "http.request", "body": chunk or b"", "more_body": chunk is not None}

    def read(self, limits: Limits) -> dict[str, bytes]:
        headers = [(b"content-type", b"multipart/form-data; boundary=b")]
        scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}
        return asyncio.run(read_parts(Request(scope, self.receive), limits))


def test_a_whole_body_gives_its_parts_by_name() -> None:
    second = b'--b\r\nContent-Disposition: form-data; name="f1"; filename="x"\r\n\r\n'
    body = Body([HEAD + b"a", b"b\r\n", second + b"\x00\r\n--b--\r\n"])
    assert body.read(Limits()) == {"f0": b"ab", "f1": b"\x00"}


@pytest.mark.parametrize("limits", [Limits(body_bytes=250_000), Limits(part_bytes=250_000)])
def test_reading_ends_with_the_chunk_that_goes_over_the_limit(limits: Limits) -> None:
    body = Body([HEAD, *[b"x" * 100_000] * 100])
    with pytest.raises(TooLargeError):
        body.read(limits)
    assert body.asked == 4


def test_a_body_that_drips_in_is_given_up() -> None:
    body = Body([HEAD, *[b"x"] * 1000], pause_s=0.05)
    with pytest.raises(TooSlowError, match="did not arrive"):
        body.read(Limits(seconds=0.2))


@pytest.mark.parametrize(
    "chunks",
    [
        [],
        [HEAD],
        [HEAD + b"x"],
        [b"--c--\r\n"],
        [b"--b\r\n\r\nno name\r\n--b--\r\n"],
        [b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--\r\n"],
        [HEAD + b"x\r\n" + HEAD + b"y\r\n--b--\r\n"],
        [b"\x00" * 1000],
    ],
)
def test_a_broken_body_is_an_error_of_the_client(chunks: list[bytes]) -> None:
    with pytest.raises(AutograderError) as caught:
        Body(chunks).read(Limits())
    assert 400 <= caught.value.status < 500


WHOLE = HEAD + b"ab\r\n" + HEAD.replace(b"f0", b"f1") + b"\r\n-\r\n\r\n--b--\r\n"


@pytest.mark.parametrize(
    "body",
    [
        WHOLE,
        WHOLE + b"after it",
        b"\r\n" + WHOLE,
        b"\r\x00" + WHOLE,
        b"\n\n\n-" + WHOLE,
        b"before it\r\n" + WHOLE,
        b"-" + WHOLE,
        WHOLE.replace(b"f1", b"f0"),
        WHOLE[:-6],
        WHOLE.replace(b"--b--", b"--b-"),
    ],
)
def test_where_chunks_end_changes_nothing(body: bytes) -> None:
    def outcome(size: int) -> dict[str, bytes] | str:
        chunks = [body[start : start + size] for start in range(0, len(body), size)]
        try:
            return Body(chunks).read(Limits())
        except AutograderError as error:
            return type(error).__name__

    outcomes = [outcome(size) for size in (len(body), 1, 2, 3, 7, 50)]
    assert all(each == outcomes[0] for each in outcomes)
