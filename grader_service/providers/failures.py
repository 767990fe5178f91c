"""What a failed call means: try later, never again, or no usable bytes."""

from __future__ import annotations

import json
import math
import re
import time
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

from grader_service.errors import BadOutputError, JudgeError, PermanentError, TryLaterError
from grader_service.providers.rate_limits import MAX_WAIT_S, rate_limits, wait_s
from grader_service.providers.transport import TIMEOUTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from grader_service.providers.transport import RefusedError

_QUOTA_CODES: Final = frozenset(
    {
        "insufficient_quota",
        "billing_hard_limit_reached",
        "enforced_spend_limit_reached",
        "contract_spend_limit_reached",
        "billing_error",
    }
)
_FILTER_CODES: Final = frozenset({"content_filter", "content_policy_violation"})
# Codes and types that come in the body of a response whose status is 200.
_STATUS_OF_CODE: Final[Mapping[str, int]] = {
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "overloaded_error": 529,
    "server_error": 500,
    "api_error": 500,
    "internal_server_error": 500,
    "timeout": 504,
    "timeout_error": 504,
    "authentication_error": 401,
    "permission_error": 403,
}
# Permanent among the 5xx: the server will not learn the method or protocol version.
_NEVER: Final = frozenset({501, 505})
_LATER_4XX: Final = frozenset({408, 409, 425})


class Refusal:
    """A refused request: its status, and what the error object in its body says.

    OpenAI, Anthropic (which has its codes one level deeper) and OpenRouter put an object under
    `error`, FastAPI servers a list or text under `detail`; others send text.
    """

    def __init__(
        self, status: int, body: Any, *, text: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        self.status = status
        self.headers = headers or {}
        error = body.get("error", body) if isinstance(body, dict) else body
        self._error: Mapping[str, Any] = error if isinstance(error, dict) else {}
        self._text = error if isinstance(error, str) else text

    @classmethod
    def of(cls, error: RefusedError) -> Refusal:
        text = error.body.decode("utf-8", "replace")
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            body = None
        return cls(error.status, body, text=text, headers=error.headers)

    @property
    def codes(self) -> frozenset[str]:
        details = self._error.get("details")
        said = [self._error.get("code"), self._error.get("type")]
        if isinstance(details, dict):
            said.append(details.get("error_code"))
        return frozenset(str(code) for code in said if code is not None)

    @property
    def message(self) -> str:
        return "; ".join(self._messages()) or self._text

    def names(self, parameter: re.Pattern[str]) -> bool:
        """Tell whether the refusal is about `parameter`.

        Where the server says in a field of its own what it refuses, its prose does not count.
        """
        places = [*self._places()]
        return any(parameter.search(text) for text in places or [self.message])

    def _places(self) -> Iterator[str]:
        param = self._error.get("param")
        if isinstance(param, str) and param:
            yield param
        for problem in self._problems():
            location = problem.get("loc")
            if isinstance(location, list):
                yield ".".join(str(step) for step in location)

    def _messages(self) -> Iterator[str]:
        said = [self._error.get("message"), self._error.get("detail")]
        said += [problem.get("msg") for problem in self._problems()]
        metadata = self._error.get("metadata")
        if isinstance(metadata, dict):
            said.append(metadata.get("raw"))
        yield from (text for text in said if isinstance(text, str) and text)

    def _problems(self) -> list[dict[str, Any]]:
        detail = self._error.get("detail")
        problems = detail if isinstance(detail, list) else []
        return [problem for problem in problems if isinstance(problem, dict)]


def refused(
    refusal: Refusal, *, request_id: str | None, secret: str, status_line: int | None = None
) -> JudgeError:
    """Return the error that a refused request comes to. `secret` is kept out of its message."""
    status = refusal.status
    said = _one_line(refusal.message, secret)
    message = f"the endpoint answered {status_line or status}: {said}"
    known: dict[str, Any] = {"status_code": status, "request_id": request_id}
    if status == 402 or (status == 429 and refusal.codes & _QUOTA_CODES):  # noqa: PLR2004
        fix = "add credit or raise the spend limit of the account behind the API key"
        return PermanentError(message, reason="provider_quota", fix=fix, **known)
    if status == 429:  # noqa: PLR2004
        wait = retry_after(refusal.headers)
        if wait is None:
            wait = wait_s(rate_limits(refusal.headers))
        return TryLaterError(message, retry_after=wait, counts=False, **known)
    if status in _LATER_4XX or (status >= 500 and status not in _NEVER):  # noqa: PLR2004
        return TryLaterError(message, retry_after=retry_after(refusal.headers), **known)
    if status in (401, 403):
        fix = "check the API key and what it may use"
        return PermanentError(message, reason="provider_auth", fix=fix, **known)
    if refusal.codes & _FILTER_CODES:
        return PermanentError(message, reason="judge_refused", **known)
    fix = "check the judge's base_url and model"
    if 300 <= status < 400:  # noqa: PLR2004
        message = f"the endpoint answered {status} and wants the frames sent elsewhere; not done"
        fix = "set base_url to the address that the endpoint redirects to, if you trust it"
    return PermanentError(message, reason="provider_rejected", fix=fix, **known)


def failed_inside(error: Any, *, request_id: str | None, secret: str) -> JudgeError:
    """Return what an error object in a response of status 200 comes to, by its code or type."""
    codes = Refusal(200, {"error": error}).codes
    numbers = [int(code) for code in codes if re.fullmatch(r"[45]\d\d", code)]
    names = [_STATUS_OF_CODE[code] for code in codes if code in _STATUS_OF_CODE]
    status = 402 if codes & _QUOTA_CODES else max(numbers or names or [400])
    refusal = Refusal(status, {"error": error})
    return refused(refusal, request_id=request_id, secret=secret, status_line=200)


def not_reached(error: BaseException) -> TryLaterError:
    """Return what a failure below HTTP comes to. The call may have been billed all the same."""
    if isinstance(error, TIMEOUTS):
        return TryLaterError("the endpoint did not answer in time", reason="timeout")
    return TryLaterError(
        f"the connection to the endpoint failed: {type(error).__name__}: {_one_line(str(error))}"
    )


def unreadable(
    problem: str, *, status_code: int | None = None, request_id: str | None = None
) -> BadOutputError:
    return BadOutputError(
        f"the endpoint answered with something that is no response object: {problem}",
        reason="reply_invalid",
        status_code=status_code,
        request_id=request_id,
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to wait, clamped to 0..900; None if it does not say.

    In order: `retry-after-ms`, `retry-after` in seconds, `retry-after` as an HTTP date.
    """
    for value, unit in ((headers.get("retry-after-ms"), 0.001), (headers.get("retry-after"), 1.0)):
        try:
            seconds = float(value or "") * unit
        except ValueError:
            continue
        if not math.isnan(seconds):
            return min(max(seconds, 0.0), MAX_WAIT_S)
    try:
        at = parsedate_to_datetime(headers.get("retry-after", ""))
    except (ValueError, OverflowError, IndexError):
        return None
    # A date without a zone is GMT, as HTTP has no other.
    seconds = at.replace(tzinfo=at.tzinfo or UTC).timestamp() - time.time()
    return min(max(seconds, 0.0), MAX_WAIT_S)


def _one_line(text: str, secret: str = "") -> str:
    """Return the start of `text`, which a stranger wrote, fit for a log line."""
    if secret:
        text = text.replace(secret, "[API key]")
    seen = "".join(char if char.isprintable() else " " for char in text[:2000])
    return " ".join(seen.split())[:300]
