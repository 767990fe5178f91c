"""ScoreCards and aggregates as tables for people, readable in 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Column, Table
from rich.text import Text

from grader_service.cli.output import out
from grader_service.cli.score_files import Result, score_robots
from grader_service.scoring import Metric, ScoreCard
from grader_service.scoring.a320 import ScoreCard as A320Card
from grader_service.scoring.a320 import printable

_YES_NO = {True: "yes", False: "no", None: "-"}
# Their means are success rates of a judge: shown only where enough trials have a verdict of one.
_OF_VERDICTS = frozenset({"operator", "vlm", "criteria_met"})
_ENOUGH = 0.8


def print_a320(results: Sequence[Result]) -> None:
    """Print the vector of each A320 run by scenario and model, best first, unsafe ones last."""
    cards = [(str(one.path), one.card) for one in results if isinstance(one.card, A320Card)]
    if not cards:
        return
    vector = ("cover", "order", "end", "pass", "unsafe", "anti", "extra", "scalar")
    table = _table("run", *vector)
    for (scenario, model), group in groupby(sorted(cards, key=_rank), key=_group):
        table.add_row(_text(f"{scenario}, {model}"), style="bold")
        for path, card in group:
            table.add_row(*_a320_row(path, card))
    _print(table)


def _a320_row(path: str, card: A320Card) -> list[Text]:
    run = _text(f" {card.run_id or path}")
    if card.status != "scored":
        run.append(f"\n  {card.status}", "yellow")
    dangerous = card.safety_dangerous or 0
    unsafe = f"UNSAFE\nx{dangerous}" if dangerous > 1 else "UNSAFE" if dangerous else ""
    return [
        run,
        *map(_number, (card.coverage, card.order, card.end_state)),
        Text(_YES_NO[card.all_passed]),
        Text(unsafe, "bold red"),
        *map(_number, (card.safety_anti_procedure, card.extraneous)),
        # Flagged, not ranked: a number beside the flag would invite to rank it.
        Text("") if unsafe else _number(card.scalar),
    ]


def _group(item: tuple[str, A320Card]) -> tuple[str, str]:
    _, card = item
    return card.scenario_id, card.model


def _rank(item: tuple[str, A320Card]) -> tuple[Any, ...]:
    path, card = item
    return _group(item), bool(card.safety_dangerous), card.scalar is None, -(card.scalar or 0), path


def print_aggregate(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the rows per scenario and model: rates beside what they are of, then means."""
    if not rows:
        return
    counts = ("n", "n_scored", "n_dangerous")
    rates = ("pass_rate", "dangerous_rate", "provider_error_rate", "invalid_rate")
    means = ("n_scored", "score_mean", "score_std", "coverage_mean", "order_mean", "end_state_mean")
    per_rate = ("pass\nrate", "unsafe\nrate", "error\nrate", "invalid\nrate")
    rate_table = _table("all runs", "runs", "scored", "unsafe", *per_rate)
    mean_table = _table("scored runs", "runs", "score", "std", "cover", "order", "end")
    for row in rows:
        name = _text(f"{row['scenario_id']}, {row['model']}")
        rate_table.add_row(name, *(_number(row[key]) for key in (*counts, *rates)))
        mean_table.add_row(name, *(_number(row[key]) for key in means))
    _print(rate_table)
    _print(mean_table)


def print_robots(results: Sequence[Result], *, cards: bool) -> None:
    """Print what each scorer gives over all scenes of the robot cards, after these if wanted."""
    robots = [one.card for one in results if isinstance(one.card, ScoreCard)]
    if not robots:
        return
    if cards:
        _print(_robot_table(robots))
    run = score_robots(results)
    stub = any(card.judgement and card.judgement["source"] == "stub" for card in robots)
    table = _table("means over scenes", "mean", "scenes", "trials", "abstained")
    for name, metric in run.metrics.items():
        scenes = f"{metric.scenes_with_value}/{metric.scenes}"
        counts = (scenes, str(metric.trials), str(metric.trials_abstained))
        table.add_row(_text(name), _mean(name, metric, stub=stub), *counts)
    _print(table)
    for error in run.errors:
        out.print(printable(error), markup=False)
    left_out = sum(isinstance(one.card, ScoreCard) and not one.complete for one in results)
    if left_out:
        out.print(f"trials that did not run to their end, left out of the means: {left_out}")


def _mean(name: str, metric: Metric, *, stub: bool) -> Text:
    if name in _OF_VERDICTS:
        if stub:
            return Text("STUB")
        if metric.trials - metric.trials_abstained < _ENOUGH * metric.trials:
            return Text("-")
    return _number(metric.value)


def _robot_table(cards: Sequence[ScoreCard]) -> Table:
    names = sorted({name for card in cards for name in card.scores})
    table = _table("scene", "epoch", "judgement", *names)
    for card in cards:
        said = card.judgement or {}
        values = (card.scores.get(name) for name in names)
        table.add_row(
            _text(card.scene_id),
            str(card.epoch),
            _text(said.get("verdict") or said.get("outcome") or ""),
            *(_text("") if score is None else _number(score.value) for score in values),
        )
    return table


def plain_table(*columns: str) -> Table:
    """Return a table without frames, whose cells fold only where a terminal is too narrow."""
    return Table(*columns, box=SIMPLE_HEAD, pad_edge=False)


def number(value: Any) -> str:
    """Return a value as a table shows it: three digits for a float, a dash for None."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}"
    return str(value)


def _table(first: str, *numbers: str) -> Table:
    """Return a table of one column of names, which folds, and columns of numbers."""
    columns = [Column(name, justify="right", overflow="fold") for name in numbers]
    names = Column(first, overflow="fold")
    return Table(
        names, *columns, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False
    )


def _print(table: Table) -> None:
    out.print(table, soft_wrap=False)
    out.print()


def _text(text: str) -> Text:
    """Return text of any origin, which can neither style a table nor steer a terminal."""
    return Text(printable(text), overflow="fold")


def _number(value: Any) -> Text:
    return _text(number(value))
