"""The client for asyncio: the same names, arguments, answers and errors as the one without."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from grader_service.cli.processes import free_port
from grader_service.client.aio import AsyncClient
from grader_service.client.http import Client
from grader_service.errors import ConflictError, InputError, NotFoundError, UnavailableError

SCENE = {"id": "pad-01", "instruction": "Put the cube on the square."}


def public(client: type) -> dict[str, str]:
    """Return the public methods of a class with what they take."""
    return {
        name: str([*inspect.signature(method).parameters.values()])
        for name, method in inspect.getmembers(client, inspect.isfunction)
        if not name.startswith("_") or name == "__init__"
    }


def test_both_clients_have_the_same_methods_that_take_the_same() -> None:
    assert public(AsyncClient) == public(Client)


async def listed(found: AsyncIterator[Any]) -> list[Any]:
    return [one async for one in found]


def test_both_clients_get_the_same_of_everything(
    service_url: str, data: Path, tmp_path: Path
) -> None:
    trajectory = (data / "a320" / "g01_apu_full.jsonl").read_bytes()
    trial = {"kind": "robot", "run": "both", "scene": SCENE, "client_id": "both/1"}

    async def ask() -> list[Any]:
        async with AsyncClient(service_url + "/") as client:
            robot = await client.submit(trial, {})
            cockpit = await client.submit(
                {"kind": "a320", "run": "both", "client_id": "both/2"}, {"trajectory": trajectory}
            )
            first, second = robot["id"], cockpit["id"]
            return [
                first,
                second,
                await client.trial(first),
                await client.find("both/2"),
                await client.find("nobody's"),
                await listed(client.trials(run="both")),
                await client.run("both"),
                await listed(client.runs()),
                await client.record(first),
                await client.verdicts(first),
                await client.scorecard(first, scorers=["episode_length"]),
                await listed(client.scorecards("both")),
                await client.aggregate("both", include_errors=True),
                await client.files(second),
                (await client.save(second, tmp_path / "async")).name,
                (await client.readiness())["ready"],
                (await client.queue())["workers"],
            ]

    first, second, *answers = asyncio.run(ask())
    with Client(service_url) as client:
        assert client.submit(trial, {})["id"] == first
        assert answers == [
            client.trial(first),
            client.find("both/2"),
            client.find("nobody's"),
            list(client.trials(run="both")),
            client.run("both"),
            list(client.runs()),
            client.record(first),
            client.verdicts(first),
            client.scorecard(first, scorers=["episode_length"]),
            list(client.scorecards("both")),
            client.aggregate("both", include_errors=True),
            client.files(second),
            "async",
            client.readiness()["ready"],
            client.queue()["workers"],
        ]
        assert client.find("nobody's") is None
        assert json.loads(client.scorecard(first, scorers=["episode_length"]))["scores"].keys() == {
            "episode_length"
        }
        saved = client.save(second, tmp_path / "sync")
    for name in ("trajectory.jsonl", "manifest.json", "verdicts.jsonl"):
        assert (saved / name).read_bytes() == (tmp_path / "async" / name).read_bytes()
    assert (saved / "trajectory.jsonl").read_bytes() == trajectory


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda client: client.run("nowhere"), NotFoundError),
        (lambda client: client.regrade("0" * 32), NotFoundError),
        (lambda client: client.cancel(run="nowhere"), NotFoundError),
        (lambda client: client.retry(reasons=["luck"]), InputError),
        (lambda client: client.wait("0" * 32), NotFoundError),
        (lambda client: client.wait_run("nowhere"), NotFoundError),
        (lambda client: listed(client.progress("nowhere")), NotFoundError),
        (lambda client: listed(client.scorecards("nowhere")), NotFoundError),
        (lambda client: client.submit({"kind": "drone"}, {}), InputError),
        (
            lambda client: asyncio.gather(
                *(
                    client.submit(
                        {"kind": "robot", "run": run, "scene": SCENE, "client_id": "x"}, {}
                    )
                    for run in "ab"
                )
            ),
            ConflictError,
        ),
    ],
)
def test_what_is_refused_raises_the_same_errors(
    service_url: str, call: Callable[[AsyncClient], Awaitable[Any]], kind: type[Exception]
) -> None:
    async def ask() -> None:
        async with AsyncClient(service_url) as client:
            await call(client)

    with pytest.raises(kind) as caught:
        asyncio.run(ask())
    assert type(caught.value) is kind


def test_where_nothing_listens_it_says_so() -> None:
    unused_url = f"http://127.0.0.1:{free_port()}"

    async def ask(call: Callable[[AsyncClient], Awaitable[Any]]) -> None:
        async with AsyncClient(unused_url) as client:
            await call(client)

    for call in (
        lambda client: client.run("r"),
        lambda client: listed(client.progress("r")),
        lambda client: listed(client.scorecards("r")),
    ):
        with pytest.raises(UnavailableError, match=unused_url):
            asyncio.run(ask(call))


def test_waiting_ends_in_time_and_says_what_the_trial_waits_for(service_url: str) -> None:
    async def ask() -> None:
        async with AsyncClient(service_url) as client:
            trial = {"kind": "robot", "run": "waits", "scene": SCENE}
            trial_id = (await client.submit(trial, {}))["id"]
            with pytest.raises(TimeoutError, match="no judge configured"):
                await client.wait(trial_id, timeout_s=0.1)
            with pytest.raises(TimeoutError, match=r"run waits has not ended within 0\.1 s"):
                await client.wait_run("waits", timeout_s=0.1)
            assert await client.cancel(trials=[trial_id]) == 1
            assert (await client.wait(trial_id, timeout_s=5))["state"] == "cancelled"
            assert (await client.wait_run("waits", timeout_s=5))["cancelled"] == 1

    asyncio.run(ask())
