"""The stub over plain HTTP: control routes, scripts, the log, and load."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import random
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from PIL import Image as PillowImage

from grader_service.errors import UsageError
from grader_service.providers.stub import StubModel

if TYPE_CHECKING:
    from collections.abc import Iterator

CRITERIA = '<data-a1 name="criteria">\n- a (required): x\n- b (required): y\n</data-a1>'


@pytest.fixture
def http() -> Iterator[httpx2.Client]:
    with httpx2.Client(trust_env=False, timeout=20) as client:
        yield client


def body(text: str = "cube", *, model: str = "m", images: tuple[bytes, ...] = ()) -> dict[str, Any]:
    uris = [f"data:image/png;base64,{base64.b64encode(image).decode()}" for image in images]
    content: list[dict[str, Any]] = [{"type": "text", "text": f"{text}\n{CRITERIA}"}]
    content += [{"type": "image_url", "image_url": {"url": uri}} for uri in uris]
    form = {"type": "json_object"}
    messages = [{"role": "user", "content": content}]
    return {"model": model, "messages": messages, "response_format": form}


def noise(seed: int, size: tuple[int, int] = (8, 8)) -> bytes:
    data = io.BytesIO()
    pixels = random.Random(seed).randbytes(size[0] * size[1] * 3)
    PillowImage.frombytes("RGB", size, pixels).save(data, "PNG")
    return data.getvalue()


def answer(
    http: httpx2.Client, stub: StubModel, asked: dict[str, Any], **headers: str
) -> httpx2.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return http.post(f"{stub.url}/chat/completions", json=asked, headers=named)


def reply(response: httpx2.Response) -> dict[str, Any]:
    text = response.json()["choices"][0]["message"]["content"]
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def test_it_tells_that_it_is_well_and_which_models_it_has(
    http: httpx2.Client, stub: StubModel
) -> None:
    assert http.get(f"{stub.root_url}/healthz").json() == {"status": "ok"}
    assert http.get(f"{stub.url}/models").json()["object"] == "list"
    assert http.get(f"{stub.root_url}/nowhere").status_code == 404
    assert http.get(f"{stub.url}/chat/completions").status_code == 404


def test_the_log_tells_what_was_asked_but_not_with_which_key(
    http: httpx2.Client, stub: StubModel
) -> None:
    image = noise(1)
    answer(http, stub, body(images=(image,)), authorization="Bearer secret", x_api_key="secret")
    (entry,) = http.get(f"{stub.root_url}/__log").json()
    assert entry["wire"] == "openai.chat"
    assert entry["texts"] == [f"cube\n{CRITERIA}"]
    assert entry["images"][0]["sha256"] == hashlib.sha256(image).hexdigest()
    assert entry["images"][0]["size"] == len(image)
    assert entry["auth"] == ["authorization", "x-api-key"]
    assert "secret" not in json.dumps(entry)
    http.post(f"{stub.root_url}/__reset")
    assert stub.log == []


def test_a_script_answers_in_turn_and_its_last_reply_repeats(
    http: httpx2.Client, stub: StubModel
) -> None:
    rules = [
        {
            "match": {"text": "cube"},
            "replies": [{"fault": "429;ra=2"}, {"text": "raw"}, {"verdict": "failure"}],
        },
        {"match": {}, "replies": [{"verdict": "abstain", "met": {"b": "no"}, "rationale": "r"}]},
    ]
    assert http.post(f"{stub.root_url}/__script", json=rules).status_code == 200
    first = answer(http, stub, body())
    assert (first.status_code, first.headers["retry-after"]) == (429, "2")
    assert answer(http, stub, body()).json()["choices"][0]["message"]["content"] == "raw"
    for _ in range(2):
        said = reply(answer(http, stub, body()))
        assert said["verdict"] == "failure"
        assert [entry["met"] for entry in said["criteria"]] == ["no", "yes"]
    other = reply(answer(http, stub, body("ball")))
    assert (other["verdict"], other["rationale"]) == ("abstain", "r")
    assert [entry["met"] for entry in other["criteria"]] == ["unclear", "no"]


def test_a_script_can_pick_a_model_or_a_content_and_count_for_each_content(
    http: httpx2.Client, stub: StubModel
) -> None:
    answer(http, stub, body("one"))
    key = stub.log[0]["key"]
    stub.script(
        [
            {"match": {"model": "big"}, "replies": [{"text": "big"}]},
            {"match": {"key": key}, "replies": [{"text": "known"}]},
            {"match": {}, "per_key": True, "replies": [{"fault": "500"}, {"text": "again"}]},
        ]
    )
    asked = [body("one", model="big"), body("one"), body("two"), body("three"), body("two")]
    responses = [answer(http, stub, each) for each in asked]
    said = [
        response.json()["choices"][0]["message"]["content"] if response.is_success else None
        for response in responses
    ]
    assert said == ["big", "known", None, None, "again"]


def test_a_script_that_is_none_is_refused_and_the_one_before_stays(
    http: httpx2.Client, stub: StubModel
) -> None:
    stub.script([{"match": {}, "replies": [{"text": "kept"}]}])
    assert http.post(f"{stub.root_url}/__script", json=[{"replies": []}]).status_code == 400
    assert http.post(f"{stub.root_url}/__script", content=b"{").status_code == 400
    with pytest.raises(UsageError, match="script"):
        stub.script([{"replies": [{"fault": "teapot"}]}])
    assert answer(http, stub, body()).json()["choices"][0]["message"]["content"] == "kept"


def test_images_are_not_decoded_when_a_script_needs_no_key(
    http: httpx2.Client, stub: StubModel
) -> None:
    broken = body(images=(b"no picture",))
    assert answer(http, stub, broken).status_code == 400
    stub.script([{"match": {}, "replies": [{"verdict": "success"}]}])
    assert answer(http, stub, broken).status_code == 200
    assert stub.log[-1]["key"] is None


def test_a_header_names_a_fault_and_a_first_fault_passes(
    http: httpx2.Client, stub: StubModel
) -> None:
    assert answer(http, stub, body(), x_stub_fault="503").status_code == 503
    assert answer(http, stub, body(), x_stub_fault="teapot").status_code == 400
    statuses = [
        answer(http, stub, body(text), x_stub_fault="first2:500").status_code
        for text in ("a", "b", "a", "a", "b")
    ]
    assert statuses == [500, 500, 500, 200, 500]


def test_a_date_to_retry_after_is_a_date(http: httpx2.Client, stub: StubModel) -> None:
    response = answer(http, stub, body(), x_stub_fault="429;ra=date+60")
    assert response.headers["retry-after"].endswith("GMT")


def test_random_faults_hit_each_content_a_bounded_number_of_times(http: httpx2.Client) -> None:
    with StubModel(faults="500:0.9,max=2", seed=3) as stub:
        statuses = [
            [answer(http, stub, body(f"trial {number}")).status_code for _ in range(4)]
            for number in range(10)
        ]
    assert all(turns.count(500) <= 2 and turns[-1] == 200 for turns in statuses)
    assert any(500 in turns for turns in statuses)


def test_faults_or_a_script_that_are_none_keep_a_stub_from_starting() -> None:
    with pytest.raises(UsageError, match="teapot"):
        StubModel(faults="teapot:0.5")
    with pytest.raises(UsageError, match="script"):
        StubModel(script=[{}])


def test_a_port_that_is_taken_is_told_to_whoever_starts_a_stub(stub: StubModel) -> None:
    with pytest.raises(OSError, match=r"[Aa]ddress"), StubModel(port=stub.port):
        pass


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"model": 1}',
        b'{"model": "m"}',
        b'{"model": "m", "messages": [{"role": "user", "content": [{"type": "image_url"}]}]}',
        b'{"model": "m", "messages": [], "stream": true}',
        b"[" * 100_000,
        b"\xff",
    ],
    ids=lambda content: repr(content[:40]),
)
def test_a_body_that_no_server_takes_is_a_400_with_an_error_object(
    http: httpx2.Client, stub: StubModel, content: bytes
) -> None:
    for path in ("chat/completions", "responses", "messages"):
        response = http.post(f"{stub.url}/{path}", content=content)
        assert response.status_code == 400
        assert "Stub" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"POST /v1/messages HTTP/1.1\r\ncontent-length: x\r\n\r\n", 400),
        (b"POST /v1/messages HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n", 413),
        (b"POST /v1/messages HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n", 411),
        (b"GET / HTTP/1.1\r\nx: " + b"y" * 100_000 + b"\r\n\r\n", 431),
    ],
)
def test_a_head_that_cannot_be_read_is_answered_and_ends_the_connection(
    stub: StubModel, head: bytes, status: int
) -> None:
    with socket.create_connection(("127.0.0.1", stub.port), timeout=10) as connection:
        connection.sendall(head)
        received = connection.makefile("rb").read()
    assert received.startswith(b"HTTP/1.1 %d" % status)


def test_hundreds_of_calls_at_once_each_get_the_answer_to_their_own_content(
    stub: StubModel,
) -> None:
    frames = [noise(seed, (320, 240)) for seed in range(4)]
    asked = [body(f"trial {number % 50}", images=tuple(frames)) for number in range(200)]
    limits = httpx2.Limits(max_connections=200)
    with (
        httpx2.Client(trust_env=False, timeout=30, limits=limits) as http,
        ThreadPoolExecutor(100) as pool,
    ):
        replies = list(pool.map(lambda each: reply(answer(http, stub, each)), asked))
    by_trial = {number: replies[number] for number in range(50)}
    assert replies == [by_trial[number % 50] for number in range(200)]
    assert len({entry["key"] for entry in stub.log}) == 50
