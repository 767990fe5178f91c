"""The HTTP client of a running service."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx2

from grader_service.client import calls
from grader_service.client.folders import write_files
from grader_service.client.following import POLL_S, SILENCE_S, Following, Lines, Patience
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

DEFAULT_URL = "http://127.0.0.1:8400"

T = TypeVar("T")


class Client:
    """Talks to one service. Thread-safe; use it as a context manager.

    Every method raises UnavailableError when the service can't be reached, answers 5xx or has too
    much to do, and InputError, NotFoundError or ConflictError for what it refuses. With `retry_s`,
    what does no harm when it is sent twice (reading, and submitting under a client id) is sent
    again while the service is away, for so many seconds at most.
    """

    def __init__(
        self, url: str = DEFAULT_URL, *, timeout_s: float = 30.0, retry_s: float = 0.0
    ) -> None:
        self.url = calls.checked_url(url)
        self._retry_s = retry_s
        self._silence = httpx2.Timeout(timeout_s, read=SILENCE_S)
        # The service is where the caller says; a proxy from the environment is for other traffic.
        self._http = httpx2.Client(
            base_url=self.url, timeout=timeout_s, trust_env=False, follow_redirects=False
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # --- trials ---------------------------------------------------------------------------------

    def submit(self, trial: Mapping[str, Any], parts: Mapping[str, bytes]) -> Trial:
        """Submit a trial: the JSON of its part `trial`, and its other parts by name."""
        return self._send(calls.submit(trial, parts))

    def trial(self, trial_id: str) -> Trial:
        """Return a trial's state and verdict."""
        return self._send(calls.trial(trial_id))

    def find(self, client_id: str) -> Trial | None:
        """Return the trial that was submitted under a client id, or None."""
        found = self._send(calls.trials(client_id=client_id))["trials"]
        return found[0] if found else None

    def trials(self, *, run: str) -> Iterator[Trial]:
        """Return all trials of a run in the order of their submission."""
        cursor: str | None = None
        while True:
            page = self._send(calls.trials(cursor, run=run))
            yield from page["trials"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def wait(self, trial_id: str, *, timeout_s: float | None = None) -> Trial:
        """Return a trial once it is done or cancelled. Raises TimeoutError."""
        patience = Patience(timeout_s)
        while True:
            trial = self.trial(trial_id)
            if trial["state"] in ("done", "cancelled"):
                return trial
            time.sleep(patience.pause(f"trial {trial_id}", trial["waiting_for"]))

    def record(self, trial_id: str) -> bytes:
        """Return a trial's record with its effective verdict on it."""
        return self._send(calls.record(trial_id))

    def verdicts(self, trial_id: str) -> list[Verdict]:
        """Return a trial's verdicts with their receipts, oldest first."""
        return self._send(calls.verdicts(trial_id))

    def scorecard(self, trial_id: str, *, scorers: Sequence[str] = ()) -> bytes:
        """Return the canonical bytes of a trial's ScoreCard; `scorers` names others than usual."""
        return self._send(calls.scorecard(trial_id, scorers))

    def files(self, trial_id: str) -> dict[str, bytes]:
        """Return everything of a trial by relative path, as `autograder export` writes it."""
        return self._send(calls.files(trial_id))

    def save(self, trial_id: str, folder: Path) -> Path:
        """Write the files of a trial to a folder, which `score` and `verify` read; return it."""
        return write_files(folder, self.files(trial_id))

    def regrade(
        self,
        trial_id: str,
        *,
        rubric: str | Mapping[str, Any] | None = None,
        judge: str | None = None,
        fresh: bool = False,
    ) -> Grading:
        """Have a trial graded once more; return the grading that waits for its judge."""
        return self._send(calls.regrade(trial_id, rubric, judge, fresh=fresh))

    # --- runs -----------------------------------------------------------------------------------

    def run(self, run: str) -> RunSummary:
        """Return a run's summary."""
        return self._send(calls.run(run))

    def runs(self) -> Iterator[ListedRun]:
        """Return all runs with their summaries, the one that began last first."""
        cursor: str | None = None
        while True:
            page = self._send(calls.runs(cursor))
            yield from page["runs"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def wait_run(self, run: str, *, timeout_s: float | None = None) -> RunSummary:
        """Return a run's summary once none of its trials is pending. Raises TimeoutError."""
        patience = Patience(timeout_s)
        while True:
            summary = self.run(run)
            if not summary["pending"]["n"]:
                return summary
            time.sleep(patience.pause(f"run {run}", summary["waiting_for"]))

    def progress(self, run: str, *, trials: bool = True) -> Iterator[Progress]:
        """Follow a run until none of its trials is pending, from its beginning on.

        Its summary at once and whenever it changes, each trial once that ends (unless `trials` is
        false), and RunEnded. Where the stream of events breaks, the summary is polled.
        """
        following = Following(run, trials=trials)
        while not following.over:
            if following.may_stream:
                # Whether the service is away the next request tells.
                with suppress(httpx2.HTTPError), self._stream(following.call()) as response:
                    if response.is_success:
                        for chunk in response.iter_bytes():
                            yield from following.feed(chunk)
                following.cut()
            if not following.over:
                yield from following.polled(self.run(run))
                time.sleep(0 if following.over else POLL_S)

    def scorecards(self, run: str, *, scorers: Sequence[str] = ()) -> Iterator[bytes]:
        """Return the canonical bytes of each trial's ScoreCard, in the order of submission."""
        lines = Lines()
        try:
            with self._stream(calls.scorecards(run, scorers)) as response:
                if not response.is_success:
                    response.read()
                    calls.check(response)
                for chunk in response.iter_bytes():
                    for line in lines.feed(chunk):
                        yield line + b"\n"
        except httpx2.HTTPError as error:
            raise calls.unreachable(self.url, error) from error

    def aggregate(self, run: str, *, include_errors: bool = False) -> list[dict[str, Any]]:
        """Return what the A320 trials of a run come to, by scenario and model."""
        return self._send(calls.aggregate(run, include_errors=include_errors))

    # --- judges and rubrics ---------------------------------------------------------------------

    def judges(self) -> list[Judge]:
        """Return the configured judges. Without any, trials wait."""
        return self._send(calls.judges())

    def rubric(self, reference: str) -> StoredRubric:
        """Return a rubric by its id in the library, or by its digest."""
        return self._send(calls.rubric(reference))

    # --- the queue ------------------------------------------------------------------------------

    def queue(self) -> dict[str, Any]:
        """Return what waits, runs and died, judge by judge, and the workers."""
        return self._send(calls.queue())

    def retry(self, *, run: str | None = None, reasons: Sequence[str] = ()) -> int:
        """Queue another round of dead trials; return of how many."""
        return self._send(calls.retry(run, reasons))

    def cancel(self, *, run: str | None = None, trials: Sequence[str] = ()) -> int:
        """Cancel what is queued or running of a run, or of trials; return how many gradings."""
        return self._send(calls.cancel(run, trials))

    def readiness(self) -> dict[str, Any]:
        """Return what keeps trials from being graded, if anything does."""
        return self._send(calls.readiness())

    def _send(self, call: calls.Call[T]) -> T:
        tries = calls.Tries(call, self.url, self._retry_s)
        while True:
            try:
                response = self._http.request(call.method, call.path, **call.arguments)
            except httpx2.HTTPError as error:
                pause = tries.pause(error)
            else:
                if not calls.is_busy(response):
                    return call.result(response, self.url)
                pause = tries.pause(response)
            time.sleep(pause)

    def _stream(self, call: calls.Call[None]) -> AbstractContextManager[httpx2.Response]:
        return self._http.stream(call.method, call.path, timeout=self._silence, **call.arguments)
