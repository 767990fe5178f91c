"""What a test can tell the stub service, and what the service tells the test."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest

from grader_service.client.http import Client
from grader_service.errors import InputError, UnavailableError
from grader_service.plugins.stub_service import StubService

ROOT = Path(__file__).parents[3]
LAST = (ROOT / "examples/trials/pad-01/final_front.jpg").read_bytes()


@pytest.fixture
def service() -> Iterator[StubService]:
    with StubService() as running:
        yield running


@pytest.fixture
def client(service: StubService) -> Iterator[Client]:
    with Client(service.url) as made:
        yield made


def trial(scene: str = "s", epoch: int = 0, client_id: str | None = None) -> dict[str, Any]:
    return {
        "kind": "robot",
        "run": "r",
        "client_id": client_id,
        "scene": {"id": scene, "instruction": "Do it."},
        "epoch": epoch,
        "frames": [{"camera": "front", "phase": "last", "part": "last"}],
    }


def submit(client: Client, scene: str = "s", epoch: int = 0) -> Any:
    """Submit a trial and return what the service says of it once it was asked again."""
    return client.trial(client.submit(trial(scene, epoch), {"last": LAST})["id"])


def test_without_a_script_every_trial_succeeds_at_once(client: Client) -> None:
    told = submit(client)
    assert (told["state"], told["outcome"], told["verdict"]) == ("done", "graded", "success")


def test_the_script_that_names_a_trial_most_closely_counts_whenever_it_was_given(
    service: StubService, client: Client
) -> None:
    service.script("success", scene="a", epoch=1)
    service.script("abstain", epoch=1)
    service.script("failure", scene="a")
    service.script("ungraded: timeout")
    said = {
        (scene, epoch): submit(client, scene, epoch) for scene in ("a", "b") for epoch in (0, 1)
    }
    assert said["a", 0]["verdict"] == "failure"
    assert said["a", 1]["verdict"] == "success"
    assert said["b", 0]["reason"] == "timeout"
    assert said["b", 1]["reason"] == "judge_abstained"


def test_words_are_used_one_after_the_other_and_the_last_one_repeats(
    service: StubService, client: Client
) -> None:
    service.script("success", "failure", note="Look again.")
    said = [submit(client) for _ in range(3)]
    assert [one["verdict"] for one in said] == ["success", "failure", "failure"]
    assert {one["note"] for one in said} == {"Look again."}


@pytest.mark.parametrize("word", ["yes", "success: sure", "abstained: tired", "ungraded: bored"])
def test_a_word_that_no_service_says_is_refused_where_it_is_written(
    service: StubService, word: str
) -> None:
    with pytest.raises(ValueError, match="is no"):
        service.script(word)
    with pytest.raises(ValueError, match="at least one word"):
        service.script()


def test_a_refusal_by_script_keeps_nothing(service: StubService, client: Client) -> None:
    service.script("refused: the rubric is unknown", "success")
    with pytest.raises(InputError, match="the rubric is unknown"):
        submit(client)
    assert service.trials == []
    submit(client)
    assert [request.status for request in service.requests] == [422, 202, 200]


def test_a_verdict_comes_after_its_delay(service: StubService, client: Client) -> None:
    service.script("failure", after=0.05)
    told = client.submit(trial(), {"last": LAST})
    assert (told["state"], told["verdict"]) == ("queued", None)
    assert client.wait(told["id"], timeout_s=10)["verdict"] == "failure"


def test_verdicts_that_are_held_come_when_they_are_released(
    service: StubService, client: Client
) -> None:
    before = submit(client)
    with service.hold():
        held = submit(client)
        assert held["state"] == "queued"
        assert client.run("r")["pending"]["n"] == 1
        assert client.trial(before["id"])["state"] == "done"
    assert client.trial(held["id"])["state"] == "done"


@pytest.mark.parametrize("how", ["503", "refused"])
def test_an_outage_ends_with_its_block_at_the_same_address(
    service: StubService, client: Client, how: Literal["503", "refused"]
) -> None:
    url = service.url
    with service.down(how, retry_after=7), pytest.raises(UnavailableError) as caught:
        submit(client)
    assert caught.value.retry_after == (7 if how == "503" else 5)
    assert service.url == url
    assert submit(client)["state"] == "done"
    assert len(service.trials) == 1


def test_what_hangs_is_answered_once_the_service_is_up(service: StubService) -> None:
    service.down("hang")
    with socket.create_connection(("127.0.0.1", httpx2.URL(service.url).port)) as raw:
        raw.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        raw.settimeout(0.05)
        with pytest.raises(TimeoutError):
            raw.recv(1)
        service.up()
        raw.settimeout(10)
        assert raw.recv(12) == b"HTTP/1.0 200"


@pytest.mark.parametrize("trouble", ["hang", "slow"])
def test_a_client_gives_up_on_a_service_that_hangs_or_is_slow(
    service: StubService, trouble: str
) -> None:
    with Client(service.url, timeout_s=0.05) as hurried:
        away = service.slow(60) if trouble == "slow" else service.down("hang")
        with away, pytest.raises(UnavailableError):
            hurried.readiness()
        assert hurried.readiness()["ready"]


def test_a_service_that_hangs_can_be_ended() -> None:
    with StubService() as service, httpx2.Client(base_url=service.url, timeout=0.05) as http:
        service.down("hang")
        with pytest.raises(httpx2.TimeoutException):
            http.get("/healthz")
    with pytest.raises(httpx2.ConnectError), httpx2.Client(base_url=service.url) as http:
        http.get("/healthz")


def test_what_came_is_told_byte_by_byte(service: StubService, client: Client) -> None:
    # A TIFF may end in anything, and this looks like the end of a part.
    odd = LAST + b"\r\n--\r\n\r\n\n"
    client.submit(trial("s", 3, "mine"), {"last": odd})
    client.submit(trial("s", 3, "mine"), {"last": odd})
    [received] = service.trials
    assert received.frames == {("last", "front"): odd}
    assert (received.client_id, received.scene_id, received.epoch) == ("mine", "s", 3)
    assert received.json["run"] == received.run == "r"
    assert received.sent == 2
    assert "mine" in repr(received)
    assert service.requests[0][:3] == ("POST", "/v1/trials", 202)


def test_whoever_waits_for_trials_is_told_how_many_came(
    service: StubService, client: Client
) -> None:
    with pytest.raises(TimeoutError, match="0 of 1"):
        service.wait_for(1, timeout_s=0.01)
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(submit, client)
        assert service.wait_for(1)[0].scene_id == "s"
        coming.result()


def test_a_client_id_is_one_trial_however_many_send_it_at_once(
    service: StubService, client: Client
) -> None:
    def send(number: int) -> str:
        told = client.submit(trial(client_id=f"c{number % 4}"), {"last": LAST})
        return told["id"]

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(send, range(40)))
    assert len(set(ids)) == len(service.trials) == 4
    assert {received.sent for received in service.trials} == {10}
