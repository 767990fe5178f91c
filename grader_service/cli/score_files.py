"""One input of `autograder score` after the other: a card, or what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grader_service.client.disk import Found, read_saved, read_trajectory
from grader_service.errors import AutograderError, InputError
from grader_service.records.saved import SavedTrial
from grader_service.scoring import Score, ScoreCard, default_scorers, resolve_scorers, robot_card
from grader_service.scoring.a320 import ScoreCard as A320Card
from grader_service.scoring.a320 import explain, printable, score_trajectory
from grader_service.scoring.robot_run import RunScores, score_run


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one input.

    `card` has what tables and means need, no more, so that thousands may be kept; `data` are the
    canonical bytes of the whole card, where these are wanted. `error` is set where there is no
    card. Of a robot trial, `reducer` is the one that its run was planned with, and `complete` is
    false when it did not run to its end.
    """

    path: Path
    card: A320Card | ScoreCard | None = None
    data: bytes | None = None
    reducer: str | None = None
    complete: bool = True
    error: str | None = None


def score_one(found: Found, *, scorers: tuple[str, ...], keep_bytes: bool) -> Result:
    """Score one input; what is wrong with it becomes the result's error."""
    try:
        return _score(found, scorers, keep_bytes=keep_bytes)
    except AutograderError as error:
        return failed(found.path, error)


def failed(path: Path, error: AutograderError) -> Result:
    """Return the result of an input that can't be scored."""
    named = str(path) in error.message
    return Result(path, error=str(error) if named else f"{path}: {error}")


def explain_one(found: Found, *, scorers: tuple[str, ...]) -> str:
    """Say in plain text why an input has its scores. Raises AutograderError."""
    if found.kind == "a320":
        return explain(read_trajectory(found.path))
    _, card = _robot(found, scorers)
    lines = [f"scene {card.scene_id}, epoch {card.epoch}"]
    for name, score in card.scores.items():
        because = f": {score.explanation}" if score.explanation else ""
        value = "abstains" if score.value is None else score.value
        lines.append(f"  {name} = {value}{because}")
    if card.judgement is not None:
        said = card.judgement["verdict"] or card.judgement["outcome"]
        reason = f" ({card.judgement['reason']})" if card.judgement["reason"] else ""
        lines.append(f"  judged {said}{reason} by {card.judgement['source']}")
    return "".join(f"{printable(line)}\n" for line in lines)


def score_robots(results: Sequence[Result]) -> RunScores:
    """Return the scores of all robot trials among the results as those of one run.

    Epochs are reduced as their run was planned, by their mean where that isn't known or differs.
    """
    robots = [one for one in results if isinstance(one.card, ScoreCard) and one.complete]
    reducers = {one.reducer for one in robots}
    reducer = reducers.pop() if len(reducers) == 1 else None
    cards = [one.card for one in robots if isinstance(one.card, ScoreCard)]
    return score_run(cards, reducer=reducer or "mean")


def _score(found: Found, scorers: tuple[str, ...], *, keep_bytes: bool) -> Result:
    if found.kind == "a320":
        a320 = score_trajectory(read_trajectory(found.path))
        data = a320.canonical() if keep_bytes else None
        return Result(found.path, replace(a320, commands=(), evidence=None), data)
    saved, card = _robot(found, scorers)
    data = card.canonical() if keep_bytes else None
    values = {name: Score(score.value) for name, score in card.scores.items()}
    complete = saved.record.status == "success"
    return Result(found.path, replace(card, scores=values), data, saved.planned.reducer, complete)


def _robot(found: Found, scorers: tuple[str, ...]) -> tuple[SavedTrial, ScoreCard]:
    if found.kind != "record":
        raise InputError(
            f"{found.path} holds trials that have no saved record yet",
            fix="submit it (autograder submit), then export the run (autograder export)",
        )
    folder = read_saved(found.path)
    chosen = resolve_scorers(scorers) if scorers else default_scorers()
    return folder.saved, robot_card(folder.saved, folder.effective, chosen)
