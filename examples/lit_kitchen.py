"""The mock kitchen of kitchenbench with the lights on: `inspect-robots` with one embodiment more.

    python -m examples.lit_kitchen run --task kitchenbench/pour_pasta --policy kitchen_random \
        --embodiment lit_kitchen --grader autograder -G run=pasta

The mock's own camera sees black until a task is under way, and of black pictures no judge can tell
anything: such trials end `ungraded: evidence_unreadable`. Here the camera shows the two grippers
over a table, and the pasta as far as it is poured. Needs `pip install kitchenbench`.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from inspect_robots.cli import main
from inspect_robots.registry import embodiment, resolve

SIDE = 128
_TABLE, _LEFT, _RIGHT, _PASTA = (196, 178, 150), (40, 60, 200), (200, 50, 40), (240, 210, 60)


class LitKitchen:
    """Does what the mock kitchen does, and draws what its camera `overhead` would see."""

    def __init__(self) -> None:
        self._kitchen = resolve("embodiment", "kitchen")
        space = self._kitchen.info.observation_space
        cameras = tuple(replace(camera, height=SIDE, width=SIDE) for camera in space.cameras)
        self.info = replace(
            self._kitchen.info,
            name="lit_kitchen",
            observation_space=replace(space, cameras=cameras),
        )

    def reset(self, scene: Any, *, seed: int | None = None) -> Any:
        return _lit(self._kitchen.reset(scene, seed=seed))

    def step(self, action: Any) -> Any:
        result = self._kitchen.step(action)
        return replace(result, observation=_lit(result.observation))

    def close(self) -> None:
        self._kitchen.close()


def _lit(observation: Any) -> Any:
    picture = np.full((SIDE, SIDE, 3), _TABLE, dtype=np.uint8)
    progress = float(np.asarray(observation.state["progress"]).reshape(-1)[0])
    _draw(picture, (0.0, 0.8), _PASTA, half=4 + int(20 * progress))
    for name, colour in (("left_eef", _LEFT), ("right_eef", _RIGHT)):
        x, y = np.asarray(observation.state[name], dtype=float).reshape(-1)[:2]
        _draw(picture, (x, y), colour, half=6)
    return replace(observation, images=dict.fromkeys(observation.images, picture))


def _draw(
    picture: npt.NDArray[np.uint8], at: tuple[float, float], colour: tuple[int, int, int], half: int
) -> None:
    """Draw a square; `at` is its centre in -1..1, x to the right and y up."""
    column, row = (int((0.5 + 0.4 * value) * SIDE) for value in (at[0], -at[1]))
    picture[max(0, row - half) : row + half, max(0, column - half) : column + half] = colour


embodiment("lit_kitchen")(LitKitchen)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
