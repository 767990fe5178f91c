"""ScoreCards and aggregates as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from grader_service.cli.output import out


def print_cards(cards: Sequence[tuple[str, Any]]) -> None:
    """Print A320 cards, best first and unsafe ones apart, then robot cards in the given order."""
    shown = [(path, card.to_dict()) for path, card in cards]
    a320 = [(path, card) for path, card in shown if card["kind"] == "a320"]
    robot = [(path, card) for path, card in shown if card["kind"] == "robot"]
    if a320:
        out.print(_a320_table(a320))
    if robot:
        out.print(_robot_table(robot))


def _a320_table(cards: Sequence[tuple[str, Mapping[str, Any]]]) -> Table:
    columns = ("coverage", "order", "end_state", "extraneous")
    table = plain_table("run", "scenario", "model", "status", *columns, "unsafe", "scalar")
    for path, card in sorted(cards, key=_rank):
        unsafe = card["safety_dangerous"] or 0
        anti = card["safety_anti_procedure"] or 0
        flag = f"[red]UNSAFE x{unsafe}[/]" if unsafe else f"anti x{anti}" if anti else ""
        table.add_row(
            card["run_id"] or path,
            card["scenario_id"],
            card["model"],
            card["status"],
            *(number(card[name]) for name in columns),
            flag,
            # Flagged, not ranked: a number beside it would invite to rank it.
            "" if unsafe else number(card["scalar"]),
        )
    return table


def _rank(item: tuple[str, Mapping[str, Any]]) -> tuple[bool, bool, float, str]:
    path, card = item
    scalar = card["scalar"]
    return bool(card["safety_dangerous"]), scalar is None, -(scalar or 0.0), path


def _robot_table(cards: Sequence[tuple[str, Mapping[str, Any]]]) -> Table:
    names = sorted({name for _, card in cards for name in card["scores"]})
    table = plain_table("scene", "epoch", "judgement", *names)
    for _, card in cards:
        judgement = card["judgement"] or {}
        table.add_row(
            card["scene_id"],
            str(card["epoch"]),
            judgement.get("verdict") or judgement.get("outcome") or "",
            *(number(card["scores"].get(name, {}).get("value")) for name in names),
        )
    return table


def print_aggregate(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the rows per scenario and model."""
    if not rows:
        return
    means = ("score_mean", "score_std", "coverage_mean", "order_mean", "end_state_mean")
    rates = ("pass_rate", "dangerous_rate", "provider_error_rate", "invalid_rate")
    counts = ("n", "n_scored", "n_dangerous")
    table = plain_table("scenario", "model", *counts, *means, *rates)
    for row in rows:
        table.add_row(
            row["scenario_id"],
            row["model"],
            *(str(row[name]) for name in counts),
            *(number(row[name]) for name in (*means, *rates)),
        )
    out.print(table)


def explain_robot(card: Mapping[str, Any]) -> str:
    """Return what each scorer says of its value."""
    lines = [f"scene {card['scene_id']}, epoch {card['epoch']}"]
    for name, score in card["scores"].items():
        because = f": {score['explanation']}" if score["explanation"] else ""
        lines.append(f"  {name} = {number(score['value'])}{because}")
    judgement = card["judgement"]
    if judgement is not None:
        said = judgement["verdict"] or judgement["outcome"]
        reason = f" ({judgement['reason']})" if judgement["reason"] else ""
        lines.append(f"  judged {said}{reason} by {judgement['source']}")
    return "\n".join(lines)


def plain_table(*columns: str) -> Table:
    """Return a table without frames, whose cells fold only where a terminal is too narrow."""
    return Table(*columns, box=SIMPLE_HEAD, pad_edge=False)


def number(value: Any) -> str:
    """Return a value as a table shows it: three digits for a float, nothing for None."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}"
    return str(value)
