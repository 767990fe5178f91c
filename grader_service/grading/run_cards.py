"""The ScoreCards of a whole run, one after the other, and what those of A320 runs come to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from grader_service.grading.read import card_of, trials_of_run
from grader_service.grading.service import Service
from grader_service.scoring import resolve_scorers
from grader_service.scoring.a320 import Aggregator
from grader_service.scoring.a320 import ScoreCard as A320Card


def scorecards(service: Service, run: str, scorers: Sequence[str] = ()) -> Iterator[bytes]:
    """Return the canonical bytes of each trial's ScoreCard, in the order of submission.

    No more than a page of trials is in memory at a time. Raises NotFoundError for a run without
    trials and InputError for an unknown scorer, at once.
    """
    resolve_scorers(scorers)
    found = trials_of_run(service, run)
    first = next(found)
    return (card_of(service, *trial, scorers).canonical() for trial in chain([first], found))


def aggregate(service: Service, run: str, *, include_errors: bool = False) -> list[dict[str, Any]]:
    """Return the rows over a run's A320 trials, one for each scenario and model.

    With `include_errors` runs that a provider cut short are pooled as well. Raises NotFoundError
    for a run without trials.
    """
    rows = Aggregator(include_errors=include_errors)
    for row, stored in trials_of_run(service, run):
        if row.kind == "a320":
            card = card_of(service, row, stored)
            assert isinstance(card, A320Card)
            rows.add(card)
    return rows.rows()
