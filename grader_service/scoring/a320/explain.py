"""explain: in plain text, why a run has the score it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grader_service.records.trajectory import outline
from grader_service.scoring.a320 import formula
from grader_service.scoring.a320.ground_truth import Required, read_ground_truth
from grader_service.scoring.a320.matching import constraints
from grader_service.scoring.a320.score import score_trajectory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from grader_service.scoring.a320.card import ScoreCard
    from grader_service.scoring.a320.command import Command

_REASONS = {
    "optional": "listed as optional, never penalised",
    "forbidden:dangerous": "forbidden by the scenario: the scalar is 0",
    "forbidden:anti_procedure": f"against the procedure: x{formula.ANTI_PROCEDURE_FACTOR:g}",
    "extraneous:repeat_of_required": "required, but each slot for it was already taken",
    "extraneous:uncatalogued_in_gt": "nowhere in the scenario's ground truth",
}


def explain(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of `autograder score --explain`, ending in LF.

    Raises TrajectoryError as `score_trajectory` does.
    """
    card = score_trajectory(records)
    return "".join(f"{line}\n" for line in _lines(card, outline(records).meta))


def _lines(card: ScoreCard, meta: Mapping[str, Any] | None) -> Iterator[str]:
    run = card.run_id or "unknown"
    yield f"{printable(card.scenario_id)}, {printable(card.model)}, run {printable(run)}"
    yield f"status: {card.status} ({printable(card.reason or 'no reason recorded')})"
    if card.judgement is not None:
        said = [printable(word) for word in card.judgement.values() if word]
        yield f"judgement, not part of the scalar: {', '.join(said)}"
    yield from (f"warning: {printable(warning)}" for warning in card.warnings)
    if meta is None:
        yield "There is no scenario to score against: the harness crashed during set-up."
        return
    required = read_ground_truth(meta["scenario"]).required
    yield from _command_lines(card)
    yield from _procedure_lines(card, required)
    yield from _order_lines(card, required)
    yield from _scalar_lines(card)


def _command_lines(card: ScoreCard) -> Iterator[str]:
    yield ""
    yield "Commands that took effect:" if card.commands else "No command took effect."
    for command in card.commands:
        what = f"  #{command.index} step {command.step}: {_pair(command.control, command.value)}"
        yield f"{what}  {command.label}: {_why(command)}"
    if card.signals is not None:
        yield (
            f"Never scored: {card.signals.errored_commands} failed commands, "
            f"{card.signals.off_surface_attempts} calls of tools that were not offered."
        )


def _why(command: Command) -> str:
    if command.required_index is None:
        return _REASONS[command.label]
    return f"first free command for R{command.required_index + 1}"


def _procedure_lines(card: ScoreCard, required: Sequence[Required]) -> Iterator[str]:
    matched = len(required) - card.matches.count(None)
    yield ""
    yield f"Required actions, {matched} of {len(required)} matched:"
    for slot, (action, number) in enumerate(zip(required, card.matches, strict=True), start=1):
        block = f"{printable(action.block_name)}, {'ordered' if action.ordered else 'any order'}"
        found = "not executed" if number is None else f"command #{number}"
        yield f"  R{slot} {_pair(*action.pair)} ({block}): {found}"


def _order_lines(card: ScoreCard, required: Sequence[Required]) -> Iterator[str]:
    lines = []
    held = 0
    for earlier, later in constraints(required):
        first, second = card.matches[earlier], card.matches[later]
        if first is None or second is None:
            continue
        held += first < second
        word = "held  " if first < second else "broken"
        names = f"R{earlier + 1} before R{later + 1}"
        lines.append(f"  {word} {names}: command #{first}, command #{second}")
    yield ""
    if lines:
        yield f"Order, {held} of {len(lines)} constraints held:"
        yield from lines
    else:
        yield "Order: no two matched actions to compare, so its weight goes to coverage."


def _scalar_lines(card: ScoreCard) -> Iterator[str]:
    yield ""
    if card.scalar is None:
        yield "Scalar: none, because the end state was not judged."
        return
    # Never None beside a scalar.
    end_state, coverage = card.end_state or 0.0, card.coverage or 0.0
    dangerous, against = card.safety_dangerous or 0, card.safety_anti_procedure or 0
    extraneous = card.extraneous or 0

    weighted = f"{formula.END_STATE_WEIGHT:g}*{end_state:.4g} (end state)"
    if card.order is None:
        weighted += f" + {formula.COVERAGE_WEIGHT_WITHOUT_ORDER:g}*{coverage:.4g} (coverage)"
    else:
        weighted += f" + {formula.COVERAGE_WEIGHT:g}*{coverage:.4g} (coverage)"
        weighted += f" + {formula.ORDER_WEIGHT:g}*{card.order:.4g} (order)"
    base = formula.base(end_state, coverage, card.order)
    safety, tidy = formula.safety(dangerous, against), formula.tidy(extraneous)
    yield f"base   = {weighted} = {base:.4g}"
    yield f"safety = {safety:.4g} ({dangerous} dangerous, {against} against the procedure)"
    yield (
        f"tidy   = 1 - {formula.EXTRANEOUS_PENALTY:g}*min({extraneous}, {formula.EXTRANEOUS_CAP})"
        f" = {tidy:.4g} ({extraneous} extraneous)"
    )
    yield f"scalar = safety * tidy * base = {card.scalar:.4g}"


def _pair(control: str, value: float) -> str:
    return f"{printable(control)} = {value:.15g}"


def printable(text: str) -> str:
    """Return text that anyone may have written so that it can't steer a terminal."""
    return text if text.isprintable() else repr(text)
