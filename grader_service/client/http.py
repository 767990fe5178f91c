"""The HTTP client of a running service."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self
from urllib.parse import quote

import httpx2

from grader_service.errors import (
    AutograderError,
    ConflictError,
    InputError,
    NotFoundError,
    UnavailableError,
)

DEFAULT_URL = "http://127.0.0.1:8400"

_BY_STATUS: Mapping[int, type[AutograderError]] = {404: NotFoundError, 409: ConflictError}


class Client:
    """Talks to one service. Thread-safe; use it as a context manager.

    Every method raises UnavailableError when the service can't be reached or answers 5xx, and
    InputError, NotFoundError or ConflictError for what it refuses.
    """

    def __init__(self, url: str = DEFAULT_URL, *, timeout_s: float = 30.0) -> None:
        self.url = url.rstrip("/")
        # The service is where the caller says; a proxy from the environment is for other traffic.
        self._http = httpx2.Client(
            base_url=self.url, timeout=timeout_s, trust_env=False, follow_redirects=False
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def submit(self, trial: Mapping[str, Any], parts: Mapping[str, bytes]) -> dict[str, Any]:
        """Submit a trial: the JSON of its part `trial`, and its other parts by name."""
        files: dict[str, tuple[str | None, bytes, str]] = {
            "trial": (None, json.dumps(trial).encode(), "application/json")
        }
        for name, data in parts.items():
            files[name] = (name, data, "application/octet-stream")
        return self._object("POST", "/v1/trials", files=files)

    def regrade(
        self,
        trial_id: str,
        *,
        rubric: str | Mapping[str, Any] | None = None,
        judge: str | None = None,
        fresh: bool = False,
    ) -> dict[str, Any]:
        """Have a trial graded once more; return the grading that waits for its judge."""
        asked = {"rubric": rubric, "judge": judge, "fresh": fresh}
        return self._object("POST", f"/v1/trials/{trial_id}/gradings", json=asked)

    def trial(self, trial_id: str) -> dict[str, Any]:
        """Return a trial's state and verdict."""
        return self._object("GET", f"/v1/trials/{trial_id}")

    def trials(self, *, run: str) -> Iterator[dict[str, Any]]:
        """Return all trials of a run in the order of their submission."""
        cursor: str | None = None
        while True:
            params = {"run": run, "limit": "500"} | ({"cursor": cursor} if cursor else {})
            page = self._object("GET", "/v1/trials", params=params)
            yield from page["trials"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def run(self, run: str) -> dict[str, Any]:
        """Return a run's summary."""
        return self._object("GET", f"/v1/runs/{quote(run, safe='')}")

    def queue(self) -> dict[str, Any]:
        """Return what waits, runs and died, judge by judge, and the workers."""
        return self._object("GET", "/v1/queue")

    def retry(self, *, run: str | None = None, reasons: Sequence[str] = ()) -> int:
        """Queue another round of dead trials; return of how many."""
        asked = {"run": run, "reasons": list(reasons)}
        return int(self._object("POST", "/v1/queue/retry", json=asked)["retried"])

    def cancel(self, *, run: str | None = None, trials: Sequence[str] = ()) -> int:
        """Cancel what is queued or running of a run, or of trials; return how many gradings."""
        asked = {"run": run, "trials": list(trials)}
        return int(self._object("POST", "/v1/queue/cancel", json=asked)["cancelled"])

    def readiness(self) -> dict[str, Any]:
        """Return what keeps trials from being graded, if anything does."""
        return self._object("GET", "/readyz")

    def record(self, trial_id: str) -> bytes:
        """Return a trial's record with its effective verdict on it."""
        return self._request("GET", f"/v1/trials/{trial_id}/record").content

    def verdicts(self, trial_id: str) -> list[dict[str, Any]]:
        """Return a trial's verdicts with their receipts, oldest first."""
        found: list[dict[str, Any]] = self._json("GET", f"/v1/trials/{trial_id}/verdicts", list)
        return found

    def scorecard(self, trial_id: str) -> bytes:
        """Return the canonical bytes of a trial's ScoreCard."""
        return self._request("GET", f"/v1/trials/{trial_id}/scorecard").content

    def _object(self, method: str, path: str, **kwargs: Any) -> dict[str, Any]:
        found: dict[str, Any] = self._json(method, path, dict, **kwargs)
        return found

    def _json(self, method: str, path: str, kind: type[Any], **kwargs: Any) -> Any:
        response = self._request(method, path, **kwargs)
        with suppress(ValueError):
            value = response.json()
            if isinstance(value, kind):
                return value
        raise UnavailableError(
            f"what answers at {self.url} is no autograder service",
            fix="give the address of one with --url",
        )

    def _request(self, method: str, path: str, **kwargs: Any) -> httpx2.Response:
        try:
            response = self._http.request(method, path, **kwargs)
        except httpx2.HTTPError as error:
            raise UnavailableError(
                f"no service answers at {self.url}: {error}",
                fix="start one with `autograder up`, or give its address with --url",
            ) from error
        if response.is_success:
            return response
        raise _error(response)


def _error(response: httpx2.Response) -> AutograderError:
    try:
        body = response.json()
    except ValueError:
        body = {}
    if not isinstance(body, dict):
        body = {}
    detail = str(body.get("detail") or f"HTTP {response.status_code}")
    fix = body.get("fix")
    if response.is_server_error:
        return UnavailableError(detail, fix=fix or "try again; the log of the service has more")
    return _BY_STATUS.get(response.status_code, InputError)(detail, fix=fix)
