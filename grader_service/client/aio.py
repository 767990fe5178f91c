"""The same client for asyncio: a control loop submits and goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx2

from grader_service.client import calls
from grader_service.client.folders import write_files
from grader_service.client.following import POLL_S, SILENCE_S, Following, Lines, Patience
from grader_service.client.http import DEFAULT_URL
from grader_service.client.types import (
    Grading,
    Judge,
    ListedRun,
    Progress,
    RunSummary,
    StoredRubric,
    Trial,
    Verdict,
)

T = TypeVar("T")


class AsyncClient:
    """Talks to one service as `Client` does, which says what each method is for.

    Use it as an asynchronous context manager. What `Client` returns is to be awaited here, and
    what it iterates over to be iterated over with `async for`.
    """

    def __init__(
        self, url: str = DEFAULT_URL, *, timeout_s: float = 30.0, retry_s: float = 0.0
    ) -> None:
        self.url = calls.checked_url(url)
        self._retry_s = retry_s
        self._silence = httpx2.Timeout(timeout_s, read=SILENCE_S)
        # The service is where the caller says; a proxy from the environment is for other traffic.
        self._http = httpx2.AsyncClient(
            base_url=self.url, timeout=timeout_s, trust_env=False, follow_redirects=False
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    # --- trials ---------------------------------------------------------------------------------

    async def submit(self, trial: Mapping[str, Any], parts: Mapping[str, bytes]) -> Trial:
        return await self._send(calls.submit(trial, parts))

    async def trial(self, trial_id: str) -> Trial:
        return await self._send(calls.trial(trial_id))

    async def find(self, client_id: str) -> Trial | None:
        found = (await self._send(calls.trials(client_id=client_id)))["trials"]
        return found[0] if found else None

    async def trials(self, *, run: str) -> AsyncIterator[Trial]:
        cursor: str | None = None
        while True:
            page = await self._send(calls.trials(cursor, run=run))
            for trial in page["trials"]:
                yield trial
            cursor = page["next_cursor"]
            if cursor is None:
                return

    async def wait(self, trial_id: str, *, timeout_s: float | None = None) -> Trial:
        patience = Patience(timeout_s)
        while True:
            trial = await self.trial(trial_id)
            if trial["state"] in ("done", "cancelled"):
                return trial
            await asyncio.sleep(patience.pause(f"trial {trial_id}", trial["waiting_for"]))

    async def record(self, trial_id: str) -> bytes:
        return await self._send(calls.record(trial_id))

    async def verdicts(self, trial_id: str) -> list[Verdict]:
        return await self._send(calls.verdicts(trial_id))

    async def scorecard(self, trial_id: str, *, scorers: Sequence[str] = ()) -> bytes:
        return await self._send(calls.scorecard(trial_id, scorers))

    async def files(self, trial_id: str) -> dict[str, bytes]:
        return await self._send(calls.files(trial_id))

    async def save(self, trial_id: str, folder: Path) -> Path:
        return write_files(folder, await self.files(trial_id))

    async def regrade(
        self,
        trial_id: str,
        *,
        rubric: str | Mapping[str, Any] | None = None,
        judge: str | None = None,
        fresh: bool = False,
    ) -> Grading:
        return await self._send(calls.regrade(trial_id, rubric, judge, fresh=fresh))

    # --- runs -----------------------------------------------------------------------------------

    async def run(self, run: str) -> RunSummary:
        return await self._send(calls.run(run))

    async def runs(self) -> AsyncIterator[ListedRun]:
        cursor: str | None = None
        while True:
            page = await self._send(calls.runs(cursor))
            for run in page["runs"]:
                yield run
            cursor = page["next_cursor"]
            if cursor is None:
                return

    async def wait_run(self, run: str, *, timeout_s: float | None = None) -> RunSummary:
        patience = Patience(timeout_s)
        while True:
            summary = await self.run(run)
            if not summary["pending"]["n"]:
                return summary
            await asyncio.sleep(patience.pause(f"run {run}", summary["waiting_for"]))

    async def progress(self, run: str, *, trials: bool = True) -> AsyncIterator[Progress]:
        following = Following(run, trials=trials)
        while not following.over:
            if following.may_stream:
                # Whether the service is away the next request tells.
                with suppress(httpx2.HTTPError):
                    async with self._stream(following.call()) as response:
                        if response.is_success:
                            async for chunk in response.aiter_bytes():
                                for event in following.feed(chunk):
                                    yield event
                following.cut()
            if not following.over:
                for event in following.polled(await self.run(run)):
                    yield event
                await asyncio.sleep(0 if following.over else POLL_S)

    async def scorecards(self, run: str, *, scorers: Sequence[str] = ()) -> AsyncIterator[bytes]:
        lines = Lines()
        try:
            async with self._stream(calls.scorecards(run, scorers)) as response:
                if not response.is_success:
                    await response.aread()
                    calls.check(response)
                async for chunk in response.aiter_bytes():
                    for line in lines.feed(chunk):
                        yield line + b"\n"
        except httpx2.HTTPError as error:
            raise calls.unreachable(self.url, error) from error

    async def aggregate(self, run: str, *, include_errors: bool = False) -> list[dict[str, Any]]:
        return await self._send(calls.aggregate(run, include_errors=include_errors))

    # --- judges and rubrics ---------------------------------------------------------------------

    async def judges(self) -> list[Judge]:
        return await self._send(calls.judges())

    async def rubric(self, reference: str) -> StoredRubric:
        return await self._send(calls.rubric(reference))

    # --- the queue ------------------------------------------------------------------------------

    async def queue(self) -> dict[str, Any]:
        return await self._send(calls.queue())

    async def retry(self, *, run: str | None = None, reasons: Sequence[str] = ()) -> int:
        return await self._send(calls.retry(run, reasons))

    async def cancel(self, *, run: str | None = None, trials: Sequence[str] = ()) -> int:
        return await self._send(calls.cancel(run, trials))

    async def readiness(self) -> dict[str, Any]:
        return await self._send(calls.readiness())

    async def _send(self, call: calls.Call[T]) -> T:
        tries = calls.Tries(call, self.url, self._retry_s)
        while True:
            try:
                response = await self._http.request(call.method, call.path, **call.arguments)
            except httpx2.HTTPError as error:
                pause = tries.pause(error)
            else:
                if not calls.is_busy(response):
                    return call.result(response, self.url)
                pause = tries.pause(response)
            await asyncio.sleep(pause)

    def _stream(self, call: calls.Call[None]) -> AbstractAsyncContextManager[httpx2.Response]:
        return self._http.stream(call.method, call.path, timeout=self._silence, **call.arguments)
