from __future__ import annotations

import re
import time
from email.utils import formatdate
from typing import Any

import httpcore2
import httpx2
import pytest

from grader_service.errors import PermanentError, TryLaterError
from grader_service.providers.failures import (
    Refusal,
    failed_inside,
    not_reached,
    refused,
    retry_after,
)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "60"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "60"}, 60.0),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "4294967295"}, 900.0),
        ({"retry-after": "1e300"}, 900.0),
        ({"retry-after": "inf"}, 900.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 -0000"}, 0.0),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, 900.0),
        ({"retry-after": "Fri, 99 Dec 2099 23:59:59 GMT"}, None),
    ],
)
def test_the_wait_that_a_server_asks_for_is_read_and_clamped(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after(headers) == seconds


def test_a_date_to_wait_for_counts_from_now() -> None:
    wait = retry_after({"retry-after": formatdate(time.time() + 120, usegmt=True)})
    assert wait is not None
    assert 60 < wait <= 120


def refuse(status: int, body: Any = None) -> Any:
    return refused(Refusal(status, body), request_id="r-1", secret="sk-secret")


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        (400, None, "provider_rejected"),
        (401, None, "provider_auth"),
        (402, None, "provider_quota"),
        (403, None, "provider_auth"),
        (404, "model_not_found", "provider_rejected"),
        (413, None, "provider_rejected"),
        (422, None, "provider_rejected"),
        (429, "insufficient_quota", "provider_quota"),
        (429, "billing_hard_limit_reached", "provider_quota"),
        (400, "content_filter", "judge_refused"),
        (501, None, "provider_rejected"),
        (307, None, "provider_rejected"),
    ],
)
def test_what_asking_again_cannot_help_is_permanent(
    status: int, code: str | None, reason: str
) -> None:
    error = refuse(status, {"error": {"code": code, "message": "no"}})
    assert isinstance(error, PermanentError)
    assert (error.reason, error.status_code, error.request_id) == (reason, status, "r-1")


@pytest.mark.parametrize("status", [408, 409, 425, 500, 502, 503, 504, 520, 529])
def test_what_may_pass_is_tried_later_and_counts_as_a_failure(status: int) -> None:
    error = refuse(status)
    assert isinstance(error, TryLaterError)
    assert (error.reason, error.counts) == ("provider_unavailable", True)


def test_a_rate_limit_is_waited_for_and_does_not_count() -> None:
    error = refused(Refusal(429, None, headers={"retry-after": "3"}), request_id=None, secret="")
    assert isinstance(error, TryLaterError)
    assert (error.counts, error.retry_after) == (False, 3.0)


def test_anthropics_spend_limit_is_found_below_the_details() -> None:
    details = {"error_code": "enforced_spend_limit_reached"}
    body = {"type": "error", "error": {"type": "rate_limit_error", "details": details}}
    assert refuse(429, body).reason == "provider_quota"


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        ({"code": 429, "message": "slow"}, TryLaterError, "provider_unavailable"),
        ({"code": "503"}, TryLaterError, "provider_unavailable"),
        ({"code": "rate_limit_exceeded"}, TryLaterError, "provider_unavailable"),
        ({"type": "overloaded_error"}, TryLaterError, "provider_unavailable"),
        ({"code": 402}, PermanentError, "provider_quota"),
        ({"code": 429, "type": "insufficient_quota"}, PermanentError, "provider_quota"),
        ({"code": 401}, PermanentError, "provider_auth"),
        ({"code": "invalid_image"}, PermanentError, "provider_rejected"),
        ({"code": 12}, PermanentError, "provider_rejected"),
        ({"message": "?"}, PermanentError, "provider_rejected"),
        ("text", PermanentError, "provider_rejected"),
        ([1], PermanentError, "provider_rejected"),
    ],
)
def test_an_error_in_a_good_response_counts_by_its_code(
    error: Any, kind: type[Exception], reason: str
) -> None:
    failure = failed_inside(error, request_id=None, secret="")
    assert (type(failure), failure.reason) == (kind, reason)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (httpcore2.ReadTimeout(), "timeout"),
        (httpcore2.PoolTimeout(), "timeout"),
        (httpx2.ConnectTimeout("slow"), "timeout"),
        (httpcore2.ReadError(), "provider_unavailable"),
        (httpcore2.RemoteProtocolError("cut"), "provider_unavailable"),
        (httpcore2.ConnectError("refused"), "provider_unavailable"),
    ],
)
def test_a_failure_below_http_is_tried_later_and_counts(error: Exception, reason: str) -> None:
    failure = not_reached(error)
    assert (failure.reason, failure.counts, failure.retry_after) == (reason, True, None)


def test_a_key_that_a_server_echoes_is_kept_out_of_the_message() -> None:
    error = refuse(401, {"error": {"message": "Incorrect API key: sk-secret"}})
    assert "sk-secret" not in str(error)
    assert "[API key]" in str(error)


def test_what_a_server_says_becomes_one_short_line() -> None:
    error = refuse(500, {"error": {"message": "a\r\nFATAL forged\x1b[2J\u202e" + "x" * 10_000}})
    assert re.search(r"a FATAL forged \[2J", error.message)
    assert error.message.isprintable()
    assert len(error.message) < 400


EFFORT = re.compile(r"\beffort\b|reasoning_effort")


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"param": "reasoning_effort", "message": "no"}},
        {"error": {"message": "Unsupported parameter: 'reasoning_effort'."}},
        {"detail": [{"loc": ["body", "reasoning_effort"], "msg": "Extra", "input": "low"}]},
        {"detail": "unknown field reasoning_effort"},
        {"error": "unknown field reasoning_effort"},
        {"error": {"message": "failed", "metadata": {"raw": "bad reasoning_effort"}}},
        {"message": "output_config.effort: Extra inputs are not permitted"},
    ],
)
def test_the_parameter_that_a_server_refuses_is_found_wherever_it_names_it(body: Any) -> None:
    assert Refusal(400, body).names(EFFORT)


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"param": "messages.1", "message": "reasoning_effort is fine, the image not"}},
        {"detail": [{"loc": ["body", "messages"], "msg": "x", "input": {"reasoning_effort": 1}}]},
        {"error": {"message": "the image is too large"}},
        {"error": {"message": "no effortless answer"}},
        None,
        [],
    ],
)
def test_a_server_that_names_another_parameter_is_believed(body: Any) -> None:
    assert not Refusal(400, body).names(EFFORT)
