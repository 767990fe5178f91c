"""What a log tells of what went wrong: kept true when scores change.

A scene's error joins what failed in it, in the order in which it did; a run's error is the first of
these, unless something graver happened. In the newest dialect it ends in how many trials have no
verdict.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

_JOINT: Final = re.compile(r"; (?=scorer '|reducer '|policy\.on_trial_end failed: )")
_OF_SCORING: Final = ("scorer '", "reducer '", "policy.on_trial_end failed: ")
_UNGRADED: Final = re.compile(r"\d+ of \d+ trial\(s\) ungraded: grader failed \(.*\)", re.DOTALL)
_UNGRADED_TOO: Final = re.compile(r"; \d+ of \d+ trial\(s\) ungraded\Z")


def scorer_failed(name: str, error: Exception) -> str:
    """Return what a log says of a scorer that failed on a trial."""
    return f"scorer {name!r} failed: {error}"


def reducer_failed(reducer: str, name: str, error: Exception) -> str:
    """Return what a log says of a reducer that failed on a scene."""
    return f"reducer {reducer!r} failed for scorer {name!r}: {error}"


def failed_scorers(sample: Mapping[str, Any]) -> list[str]:
    """Return the names of the scorers that a scene's error tells of."""
    details = _details(sample["error"])
    return [detail.split("'")[1] for detail in details if detail.startswith("scorer '")]


def scene_state(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    *,
    ran: Sequence[int],
    scorers: Sequence[str],
    reducers: Mapping[str, str | None],
    interrupted: str | None,
) -> tuple[str, str | None]:
    """Return a scene's status and error after some of its scorers ran again.

    `ran` are the epochs that ran to their end. `scorers` tells of scorers that failed only now,
    `reducers` by every scorer that ran again how its reducer failed now, if it did. `interrupted`
    is the error of a run that somebody cancelled.
    """
    details: list[str | None] = list(_details(before["error"]))
    for name, failed_now in reducers.items():
        told = [k for k, detail in enumerate(details) if (detail or "").startswith(_failing(name))]
        failed = [epoch for epoch in ran if name not in before["epochs"][epoch]]
        # Trials that broke off replace what was told before them: the last ones are told of.
        for epoch, k in zip(reversed(failed), reversed(told), strict=False):
            if name in after["epochs"][epoch]:
                details[k] = None
        places = [k for k, detail in enumerate(details) if _is_of_reducer(detail, name)]
        if places:
            details[places[0]] = failed_now
        elif failed_now is not None:
            details.append(failed_now)
    of_reducers = [k for k, detail in enumerate(details) if (detail or "").startswith("reducer '")]
    place = of_reducers[0] if of_reducers else len(details)
    details[place:place] = scorers
    kept = [detail for detail in details if detail is not None]
    if not kept:
        return "success", None
    cancelled = interrupted is not None and kept == [interrupted]
    return "cancelled" if cancelled else "error", "; ".join(kept)


def _is_of_reducer(detail: str | None, name: str) -> bool:
    said = detail or ""
    return said.startswith("reducer '") and f" failed for scorer {name!r}: " in said


def _failing(name: str) -> str:
    return f"scorer {name!r} failed: "


def _details(error: str | None) -> list[str]:
    return [] if error is None else _JOINT.split(error)


def run_state(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    *,
    ran: Sequence[Sequence[int]],
    rescored: Sequence[str],
) -> tuple[str, str | None]:
    """Return a run's status and error; `after` is the log with its scenes as they are now.

    `ran` are, scene by scene, the epochs that ran to their end; `rescored` the scorers that ran
    again.
    """
    status, error = before["status"], before["error"]
    newest = "abstentions" in before["results"]
    if newest and error is not None:
        error = None if _UNGRADED.fullmatch(error) else _UNGRADED_TOO.sub("", error)
    ours = any(
        (error or "").startswith(_failing(name)) or _is_of_reducer(error, name) for name in rescored
    )
    if error is None or ours or error in _of_scoring(before):
        error = _first(before, after, ran, rescored)
        status = "success" if error is None else "error"
    if not newest:
        return status, error
    return _with_ungraded(status, error, after, sum(map(len, ran)))


def _first(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    ran: Sequence[Sequence[int]],
    rescored: Sequence[str],
) -> str | None:
    """Return what of scoring went wrong first, if anything did.

    A missing score tells of a scorer that failed even where the scene's error tells of something
    later instead.
    """
    told = [before["error"] or "", *_of_scoring(before), *_of_scoring(after)]
    texts = {
        name: next((text for text in told if text.startswith(_failing(name))), None)
        for name in rescored
    }
    for sample, epochs in zip(after["samples"], ran, strict=True):
        scores = [sample["epochs"][epoch] for epoch in epochs]
        missing = [texts[name] for one in scores for name in rescored if name not in one]
        found = [text for text in missing if text] + _of_scoring({"samples": [sample]})
        if found:
            return found[0]
    return None


def _of_scoring(log: Mapping[str, Any]) -> list[str]:
    return [
        detail
        for sample in log["samples"]
        for detail in _details(sample["error"])
        if detail.startswith(_OF_SCORING)
    ]


def _with_ungraded(
    status: str, error: str | None, log: Mapping[str, Any], graded: int
) -> tuple[str, str | None]:
    reasons = [
        metadata["grading_error"]
        for sample in log["samples"]
        for metadata in sample["trial_metadata"]
        if metadata.get("grading_error")
    ]
    if not reasons:
        return status, error
    told = f"{len(reasons)} of {graded} trial(s) ungraded"
    if error is None:
        return "error", f"{told}: grader failed ({reasons[0]})"
    return status, f"{error}; {told}"
