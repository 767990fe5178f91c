"""Which command fulfils which required action, what class each command has, and their order."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from grader_service.scoring.a320.command import Command

if TYPE_CHECKING:
    from grader_service.scoring.a320.calls import EffectiveCommand
    from grader_service.scoring.a320.ground_truth import GroundTruth, Pair, Required

Matches = Sequence[int | None]


class OrderCount(NamedTuple):
    """How many order constraints had both actions matched, and how many of these held."""

    satisfied: int
    applicable: int


def match(required: Sequence[Required], commands: Sequence[EffectiveCommand]) -> list[int | None]:
    """Return per required action the number of its command, or None.

    Greedy by rule: each action in turn takes the first command of its pair that is still free. So
    of one pair the j-th action gets the j-th command, and no better assignment is looked for.
    """
    free: defaultdict[Pair, list[int]] = defaultdict(list)
    for number in range(len(commands) - 1, -1, -1):
        free[commands[number].pair].append(number)
    return [free[action.pair].pop() if free[action.pair] else None for action in required]


def classify(
    truth: GroundTruth, commands: Sequence[EffectiveCommand], matches: Matches
) -> list[Command]:
    """Return the commands with their classes, the first of these that applies:

    matched to a required action, optional, forbidden, extraneous.
    """
    slot_of = {number: slot for slot, number in enumerate(matches) if number is not None}
    required = {action.pair for action in truth.required}
    classified = []
    for number, (_, step, pair) in enumerate(commands):
        what = number, int_or_none(step), *pair
        if number in slot_of:
            command = Command(*what, "matched_required", required_index=slot_of[number])
        elif pair in truth.optional:
            command = Command(*what, "optional")
        elif pair in truth.forbidden:
            command = Command(*what, "forbidden", severity=truth.forbidden[pair])
        elif pair in required:
            command = Command(*what, "extraneous", subtype="repeat_of_required")
        else:
            command = Command(*what, "extraneous", subtype="uncatalogued_in_gt")
        classified.append(command)
    return classified


def constraints(required: Sequence[Required]) -> Iterator[tuple[int, int]]:
    """Yield all pairs of slots (earlier, later) whose commands should come in that order.

    Actions of different blocks are constrained, those of one block only where it is ordered.
    """
    for later, action in enumerate(required):
        for earlier in range(later):
            if required[earlier].block != action.block or action.ordered:
                yield earlier, later


def count_order(required: Sequence[Required], matches: Matches) -> OrderCount:
    """Count the constraints whose actions are both matched, without listing all pairs.

    Equal to counting over `constraints`, but a scenario of any length stays cheap.
    """
    satisfied = applicable = 0
    before: list[int] = []  # sorted numbers of the commands that should precede the next one
    unordered: list[int] = []  # those of the current block, which become binding at its end
    block = -1
    for action, number in zip(required, matches, strict=True):
        if action.block != block:
            block = action.block
            for earlier in unordered:
                insort(before, earlier)
            unordered.clear()
        if number is None:
            continue
        applicable += len(before)
        satisfied += bisect_left(before, number)
        if action.ordered:
            insort(before, number)
        else:
            unordered.append(number)
    return OrderCount(satisfied, applicable)


def int_or_none(value: object) -> int | None:
    """Return `value` if it is an integer other than a boolean."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None
