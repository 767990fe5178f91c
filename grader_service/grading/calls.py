"""What the calls of one grading tell about the provider, besides their answers."""

from __future__ import annotations

from typing import Literal

from grader_service.errors import JudgeError, TryLaterError
from grader_service.providers.base import Answer, Ask, Provider, Wire
from grader_service.providers.rate_limits import wait_s

# answered: it is up, whatever it said. limited: it is up and wants fewer calls. fault: it, or the
# way to it, is down. refused: it answers nobody with this key. unasked: nothing was learnt.
Outcome = Literal["answered", "limited", "fault", "refused", "unasked"]


class Calls:
    """A provider for the calls of one grading; it remembers how the last of them ended.

    `wait_s` is how long the provider asks everybody to wait, None where it doesn't say.
    """

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self.made = 0
        self.outcome: Outcome = "unasked"
        self.wait_s: float | None = None
        self.why = ""

    @property
    def wire(self) -> Wire:
        return self._provider.wire

    def ask(self, ask: Ask) -> Answer:
        try:
            answer = self._provider.ask(ask)
        except JudgeError as error:
            self._note(outcome_of(error), getattr(error, "retry_after", None), error.message)
            raise
        wait = wait_s(answer.rate_limits)
        self._note("answered", wait, "it says that nothing is left of its rate limit")
        return answer

    def _note(self, outcome: Outcome, wait: float | None, why: str) -> None:
        self.made += 1
        self.outcome, self.wait_s, self.why = outcome, wait, why

    def warm(self) -> None:
        self._provider.warm()

    def close(self) -> None:
        self._provider.close()


def outcome_of(error: JudgeError) -> Outcome:
    """Return what a failed call says about the provider."""
    if error.reason == "provider_quota" or error.status_code == 401:  # noqa: PLR2004
        return "refused"
    if not isinstance(error, TryLaterError):
        return "answered"
    if not error.counts:
        return "limited"
    # Below HTTP there is no status; 409 and 425 are about the one request.
    status = error.status_code or 599
    return "fault" if status >= 500 or status == 408 else "answered"  # noqa: PLR2004
