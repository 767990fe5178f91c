"""The headers by which endpoints say how much of a rate limit is left."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_WAIT_S: Final = 900.0

_REMAINING: Final = re.compile(
    r"x-ratelimit-remaining-(?P<openai>.+)|anthropic-ratelimit-(?P<anthropic>.+)-remaining"
)
_UNITS: Final = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_PART: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|us|ns|d|h|m|s)")
_DURATION: Final = re.compile(rf"(?:{_PART.pattern})+")
_SECONDS: Final = re.compile(r"\d{1,9}(?:\.\d{1,9})?")


@dataclass(frozen=True, slots=True)
class RateLimit:
    """One limit (requests, tokens, input-tokens, …): what is left, and the seconds to its reset."""

    name: str
    remaining: int
    reset_s: float


def rate_limits(headers: Mapping[str, str]) -> tuple[RateLimit, ...]:
    """Return the limits that a response tells of; what can't be read is left out.

    OpenAI and servers like it send `x-ratelimit-remaining-NAME` and `x-ratelimit-reset-NAME`, a
    duration such as 1m30s or 120ms; Anthropic `anthropic-ratelimit-NAME-remaining` and `-reset`, a
    time of RFC 3339. `reset_s` is clamped to 0..900.
    """
    found = []
    for header, value in headers.items():
        match = _REMAINING.fullmatch(header.lower())
        if match is None or not re.fullmatch(r"-?\d{1,15}", value):
            continue
        if match["openai"]:
            reset = _duration(headers.get(f"x-ratelimit-reset-{match['openai']}", ""))
        else:
            reset = _until(headers.get(f"anthropic-ratelimit-{match['anthropic']}-reset", ""))
        if reset is not None:
            name = match["openai"] or match["anthropic"]
            found.append(RateLimit(name, int(value), min(max(reset, 0.0), MAX_WAIT_S)))
    return tuple(found)


def wait_s(limits: Iterable[RateLimit]) -> float | None:
    """Return how long to wait for the limits of which nothing is left; None when there is none."""
    return max((limit.reset_s for limit in limits if limit.remaining <= 0), default=None)


def _duration(text: str) -> float | None:
    if _SECONDS.fullmatch(text):
        return float(text)
    if not _DURATION.fullmatch(text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def _until(text: str) -> float | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at.replace(tzinfo=at.tzinfo or UTC).timestamp() - time.time()
