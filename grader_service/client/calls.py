"""The routes of the service: what is sent, how the answer is read, and what is tried again.

The clients with and without `await` only carry this to and fro.
"""

from __future__ import annotations

import io
import json
import random
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final, Generic, TypedDict, TypeVar
from urllib.parse import quote

import httpx2

from grader_service.client.types import (
    Grading,
    Judge,
    ListedRun,
    RunSummary,
    StoredRubric,
    Trial,
    Verdict,
)
from grader_service.errors import (
    AutograderError,
    ConflictError,
    InputError,
    NoServiceError,
    NotFoundError,
    UnavailableError,
    UsageError,
)

T = TypeVar("T")

_BY_STATUS: Final[Mapping[int, type[AutograderError]]] = {404: NotFoundError, 409: ConflictError}
# The service, its database or a proxy before it is not there now, or has too much to do.
_BUSY: Final = frozenset({408, 425, 429, 502, 503, 504})
_TOO_LARGE: Final = 413
_ADDRESS: Final = "give the address of one with --url"
_LONGEST_PAUSE_S: Final = 10.0


class TrialsPage(TypedDict):
    """Some trials; `next_cursor` asks for more."""

    trials: list[Trial]
    next_cursor: str | None


class RunsPage(TypedDict):
    """Some runs; `next_cursor` asks for more."""

    runs: list[ListedRun]
    next_cursor: str | None


class _StrangeError(ValueError):
    """An answer of another form than the service gives."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request. `repeatable`: sent twice it does no more than sent once."""

    method: str
    path: str
    read: Callable[[httpx2.Response], T]
    arguments: Mapping[str, Any]
    repeatable: bool

    def result(self, response: httpx2.Response, url: str) -> T:
        """Return what a response that was read to its end says, or raise what it says is wrong."""
        check(response)
        try:
            return self.read(response)
        except _StrangeError as error:
            raise NoServiceError(
                f"what answers at {url} is no autograder service", fix=_ADDRESS
            ) from error


# --- routes -------------------------------------------------------------------------------------


def submit(trial: Mapping[str, Any], parts: Mapping[str, bytes]) -> Call[Trial]:
    files: dict[str, tuple[str | None, bytes, str]] = {
        "trial": (None, json.dumps(trial).encode(), "application/json")
    }
    for name, data in parts.items():
        files[name] = (name, data, "application/octet-stream")
    return Call(
        "POST",
        "/v1/trials",
        _submitted,
        {"files": files},
        # Under its client id it is the same trial, however often it comes.
        repeatable=trial.get("client_id") is not None,
    )


def trial(trial_id: str) -> Call[Trial]:
    return _get(_trial(trial_id), _object)


def trials(cursor: str | None = None, **filters: str) -> Call[TrialsPage]:
    limit = {"limit": "500"} | ({"cursor": cursor} if cursor else {})
    return _get("/v1/trials", _object, params=filters | limit)


def run(name: str) -> Call[RunSummary]:
    return _get(_run(name), _object)


def runs(cursor: str | None = None) -> Call[RunsPage]:
    return _get("/v1/runs", _object, params={"cursor": cursor} if cursor else {})


def events(name: str, *, trials: bool, last_id: str | None) -> Call[None]:
    headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id else {})
    return _get(
        f"{_run(name)}/events",
        lambda _: None,
        params={} if trials else {"trials": "false"},
        headers=headers,
    )


def scorecards(name: str, scorers: Sequence[str]) -> Call[None]:
    return _get(f"{_run(name)}/scorecards", lambda _: None, params={"scorer": list(scorers)})


def aggregate(name: str, *, include_errors: bool) -> Call[list[dict[str, Any]]]:
    def rows(response: httpx2.Response) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = _object(response)["aggregate"]
        return found

    params = {"include_errors": "true"} if include_errors else {}
    return _get(f"{_run(name)}/aggregate", rows, params=params)


def regrade(
    trial_id: str, rubric: str | Mapping[str, Any] | None, judge: str | None, *, fresh: bool
) -> Call[Grading]:
    asked = {"rubric": rubric, "judge": judge, "fresh": fresh}
    return _post(f"{_trial(trial_id)}/gradings", _object, asked)


def record(trial_id: str) -> Call[bytes]:
    return _get(f"{_trial(trial_id)}/record", _content)


def verdicts(trial_id: str) -> Call[list[Verdict]]:
    return _get(f"{_trial(trial_id)}/verdicts", _list)


def scorecard(trial_id: str, scorers: Sequence[str]) -> Call[bytes]:
    return _get(f"{_trial(trial_id)}/scorecard", _content, params={"scorer": list(scorers)})


def files(trial_id: str) -> Call[dict[str, bytes]]:
    return _get(f"{_trial(trial_id)}/files", lambda response: _unpack(response.content))


def queue() -> Call[dict[str, Any]]:
    return _get("/v1/queue", _object)


def retry(run: str | None, reasons: Sequence[str]) -> Call[int]:
    return _post("/v1/queue/retry", _number("retried"), {"run": run, "reasons": list(reasons)})


def cancel(run: str | None, trials: Sequence[str]) -> Call[int]:
    return _post("/v1/queue/cancel", _number("cancelled"), {"run": run, "trials": list(trials)})


def judges() -> Call[list[Judge]]:
    def listed(response: httpx2.Response) -> list[Judge]:
        found: list[Judge] = _object(response)["judges"]
        return found

    return _get("/v1/judges", listed)


def rubric(reference: str) -> Call[StoredRubric]:
    return _get(f"/v1/rubrics/{quote(reference)}", _object)


def readiness() -> Call[dict[str, Any]]:
    return _get("/readyz", _object)


def _trial(trial_id: str) -> str:
    return f"/v1/trials/{quote(trial_id, safe='')}"


def _run(name: str) -> str:
    return f"/v1/runs/{quote(name, safe='')}"


def _get(path: str, read: Callable[[httpx2.Response], T], **arguments: Any) -> Call[T]:
    return Call("GET", path, read, arguments, repeatable=True)


def _post(path: str, read: Callable[[httpx2.Response], T], asked: Any) -> Call[T]:
    return Call("POST", path, read, {"json": asked}, repeatable=False)


# --- reading answers ----------------------------------------------------------------------------


def _json(response: httpx2.Response, kind: type[Any]) -> Any:
    try:
        value = response.json()
    except ValueError as error:
        raise _StrangeError from error
    if not isinstance(value, kind):
        raise _StrangeError
    return value


def _object(response: httpx2.Response) -> Any:
    return _json(response, dict)


def _submitted(response: httpx2.Response) -> Any:
    trial = _object(response)
    # Whoever takes this for an answer deletes what was sent.
    if not isinstance(trial.get("id"), str):
        raise _StrangeError
    return trial


def _list(response: httpx2.Response) -> Any:
    return _json(response, list)


def _content(response: httpx2.Response) -> bytes:
    return response.content


def _number(name: str) -> Callable[[httpx2.Response], int]:
    return lambda response: int(_object(response)[name])


def _unpack(data: bytes) -> dict[str, bytes]:
    """Return the files of a tar archive by their relative paths."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for member in archive:
                path = PurePosixPath(member.name)
                content = archive.extractfile(member)
                if content is None or path.is_absolute() or ".." in path.parts:
                    raise _StrangeError
                found[str(path)] = content.read()
    except (tarfile.TarError, OSError, KeyError) as error:  # the last: a link to nowhere
        raise _StrangeError from error
    return found


def check(response: httpx2.Response) -> None:
    """Raise what a response says that is no success."""
    if not response.is_success:
        raise refusal(response)


def refusal(response: httpx2.Response) -> AutograderError:
    """Return the error that a response is: UnavailableError for 5xx and what may pass (429).

    NoServiceError for what the service itself does not say; others are NotFoundError, ConflictError
    or InputError.
    """
    try:
        body = response.json()
    except ValueError:
        body = {}
    if not isinstance(body, dict):
        body = {}
    detail = str(body.get("detail") or f"HTTP {response.status_code}")
    fix = body.get("fix")
    # Only the service itself refuses for good, and says why; a proxy or portal before it may be
    # gone tomorrow. A proxy that finds a trial too large will not change its mind.
    is_ours = "detail" in body or response.status_code == _TOO_LARGE
    if response.is_server_error or is_busy(response):
        fix = fix or "try again; the log of the service has more"
        return UnavailableError(detail, fix=fix, retry_after=_retry_after(response))
    if not is_ours:
        return NoServiceError(f"what answers is no autograder service ({detail})", fix=_ADDRESS)
    return _BY_STATUS.get(response.status_code, InputError)(detail, fix=fix)


def _retry_after(response: httpx2.Response, *, default: float = 5.0) -> float:
    said = response.headers.get("retry-after", "")
    return float(said) if said.isdecimal() else default


# --- trying again -------------------------------------------------------------------------------


class Tries:
    """How often a call is sent again: while its service is away, for `patience_s` at most."""

    def __init__(self, call: Call[Any], url: str, patience_s: float) -> None:
        self._url = url
        self._give_up = time.monotonic() + (patience_s if call.repeatable else 0.0)
        self._failed = 0

    def pause(self, failure: httpx2.HTTPError | httpx2.Response) -> float:
        """Return the seconds to wait before the next try; raise what failed when there is none."""
        backoff = min(_LONGEST_PAUSE_S, 0.2 * 2.0 ** min(self._failed, 10))
        # Spread, not secrecy.
        pause = backoff * random.uniform(0.5, 1.0)  # noqa: S311
        if isinstance(failure, httpx2.Response):
            pause = max(pause, _retry_after(failure, default=0.0))
        self._failed += 1
        if time.monotonic() + pause <= self._give_up and not isinstance(
            failure, httpx2.UnsupportedProtocol
        ):
            return pause
        if isinstance(failure, httpx2.HTTPError):
            raise unreachable(self._url, failure) from failure
        raise refusal(failure)


def is_busy(response: httpx2.Response) -> bool:
    """Say whether the same call may well succeed a little later."""
    return response.status_code in _BUSY


def checked_url(url: str) -> str:
    """Return a service's address without a slash at its end. Raises UsageError for no URL."""
    try:
        httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise UsageError(
            f"{url!r} is no URL: {error}", fix="write it like http://127.0.0.1:8400"
        ) from error
    return url.rstrip("/")


def unreachable(url: str, error: httpx2.HTTPError) -> UnavailableError:
    """Return the error of a service that doesn't answer."""
    return UnavailableError(
        f"no service answers at {url}: {error}",
        fix="start one with `autograder up`, or give its address with --url",
    )
