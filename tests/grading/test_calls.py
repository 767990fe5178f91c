"""What the end of a call tells about its provider."""

from __future__ import annotations

import pytest

from grader_service.errors import BadOutputError, JudgeError
from grader_service.grading.calls import Calls, outcome_of
from grader_service.providers.base import Answer, Ask, RungRefusedError, Wire
from grader_service.providers.failures import Refusal, failed_inside, not_reached, refused
from grader_service.providers.rate_limits import RateLimit

ASK = Ask(system="", parts=(), rung="text", schema={})


class Scripted:
    """A provider whose calls end as they are told to, one after the other."""

    wire: Wire = "openai.chat"

    def __init__(self, *ends: Answer | Exception) -> None:
        self._ends = list(ends)

    def ask(self, ask: Ask) -> Answer:  # noqa: ARG002  (the port's)
        end = self._ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end

    def warm(self) -> None: ...

    def close(self) -> None: ...


def answer(*limits: RateLimit) -> Answer:
    return Answer("openai.chat", {}, "text", "m", None, rate_limits=limits)


def refusal(status: int, **headers: str) -> JudgeError:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return refused(Refusal(status, None, headers=named), request_id=None, secret="")


@pytest.mark.parametrize("status", [408, 500, 502, 503, 504, 520, 529])
def test_a_server_that_fails_is_at_fault(status: int) -> None:
    assert outcome_of(refusal(status)) == "fault"


@pytest.mark.parametrize("error", [TimeoutError("x"), ConnectionResetError("x")])
def test_a_provider_that_is_not_reached_is_at_fault(error: Exception) -> None:
    assert outcome_of(not_reached(error)) == "fault"


@pytest.mark.parametrize("status", [400, 403, 404, 409, 413, 422, 425])
def test_a_server_that_refuses_one_request_is_up(status: int) -> None:
    assert outcome_of(refusal(status)) == "answered"


def test_a_server_that_sends_nonsense_is_up() -> None:
    assert outcome_of(BadOutputError("no JSON", reason="reply_invalid")) == "answered"


def test_a_wrong_key_and_a_spent_quota_are_everybodys() -> None:
    spent = failed_inside({"code": "insufficient_quota"}, request_id=None, secret="")
    assert [outcome_of(e) for e in (refusal(401), refusal(402), spent)] == ["refused"] * 3


def test_a_rate_limit_asks_everybody_to_wait() -> None:
    calls = Calls(Scripted(refusal(429, retry_after="7")))
    with pytest.raises(JudgeError):
        calls.ask(ASK)
    assert (calls.outcome, calls.wait_s, calls.made) == ("limited", 7.0, 1)


def test_an_answer_that_used_up_a_limit_asks_everybody_to_wait_for_its_reset() -> None:
    limits = RateLimit("requests", 0, 3.0), RateLimit("tokens", 0, 5.0), RateLimit("x", 1, 60.0)
    calls = Calls(Scripted(answer(*limits)))
    calls.ask(ASK)
    assert (calls.outcome, calls.wait_s) == ("answered", 5.0)


def test_the_last_call_tells_the_state_of_the_provider() -> None:
    calls = Calls(Scripted(answer(RateLimit("requests", 0, 3.0)), refusal(500)))
    calls.ask(ASK)
    with pytest.raises(JudgeError):
        calls.ask(ASK)
    assert (calls.outcome, calls.wait_s, calls.made) == ("fault", None, 2)


def test_a_form_of_answer_that_is_known_to_be_refused_is_no_call() -> None:
    calls = Calls(Scripted(RungRefusedError("json_schema", "not here")))
    with pytest.raises(RungRefusedError):
        calls.ask(ASK)
    assert (calls.outcome, calls.made) == ("unasked", 0)
