"""What the robot was asked to do, as far as this judge understands it."""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

from examples.pixel_judge.vision import COLOURS

Goal = Literal["area", "bin", "stack", "closed"]

_GOALS: Final[dict[str, Goal]] = {
    "square": "area",
    "pad": "area",
    "circle": "area",
    "bin": "bin",
    "box": "bin",
    "cube": "stack",
    "block": "stack",
}
_THING: Final = re.compile(rf"\b({'|'.join(COLOURS)}) (\w+)")
_CLOSE_DRAWER: Final = re.compile(r"\b(?:close|shut)\b.*\bdrawer\b")


class Thing(NamedTuple):
    """A coloured thing that an instruction names."""

    colour: str
    noun: str

    def __str__(self) -> str:
        return f"{self.colour} {self.noun}"


# The instruction gives the drawer no colour; the one on this table is red.
DRAWER: Final = Thing("red", "drawer")


class Task(NamedTuple):
    """The thing to move, the thing that says where to, and what reaching it means.

    `let_go`: whether doing it ends in letting go of the target, as after carrying it.
    """

    target: Thing
    place: Thing
    goal: Goal
    let_go: bool


def read_task(instruction: str) -> Task | None:
    """Return the task of an instruction, or None if there is no check for it.

    "Put the blue cube into the orange bin": the first coloured thing is the target, the second the
    place, whose noun tells the goal.
    """
    text = " ".join(instruction.lower().split())
    if _CLOSE_DRAWER.search(text):
        return Task(DRAWER, DRAWER, "closed", let_go=False)
    things = [Thing(*match) for match in _THING.findall(text)]
    if len(things) != 2 or things[1].noun not in _GOALS:
        return None
    target, place = things
    return Task(target, place, _GOALS[place.noun], let_go=not text.startswith("push"))
