"""A robot, tasks and graders for tests with the real harness."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from inspect_robots.mock.cubepick import CubePickEmbodiment
from inspect_robots.scene import Scene
from inspect_robots.task import Epochs, Task
from inspect_robots.types import Action, Observation, StepResult

from grader_service.plugins.harness.grader import AutograderGrader
from grader_service.plugins.inspect_robots import autograder

# What the stub model says, by what the instruction of a scene says.
SCRIPT: Final[list[dict[str, Any]]] = [
    {"match": {"text": "Miss the cup"}, "replies": [{"verdict": "failure"}]},
    {"match": {"text": "Doubt the cup"}, "replies": [{"verdict": "abstain"}]},
    {"match": {"text": "Refuse the cup"}, "replies": [{"fault": "refusal"}]},
    {"match": {}, "replies": [{"verdict": "success"}]},
]
INSTRUCTIONS: Final = ("Lift the cup", "Miss the cup", "Doubt the cup", "Refuse the cup")


class Rig(CubePickEmbodiment):
    """A robot with cameras that show something, and an arm that may be parked out of their view."""

    def __init__(
        self,
        *,
        cameras: Sequence[str] = ("front", "wrist"),
        shape: tuple[int, ...] = (128, 160, 3),
        parks: bool = False,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._cameras = cameras
        self._shape = shape
        self._extra = dict(extra or {})
        self._taken = 0
        # The buffer that each picture is taken into, as drivers of cameras have one.
        self._buffer = np.zeros(shape, np.uint8)
        if parks:
            self.observe_parked = self._parked

    def reset(self, scene: Any, *, seed: int | None = None) -> Observation:
        return self._see(super().reset(scene, seed=seed))

    def step(self, action: Action) -> StepResult:
        result = super().step(action)
        return replace(result, observation=self._see(result.observation))

    def _parked(self) -> Observation:
        return self._see(self._observe(None))

    def _see(self, observation: Observation) -> Observation:
        images = {}
        for camera in self._cameras:
            self._taken += 1
            noise = np.random.default_rng(self._taken)
            images[camera] = noise.integers(0, 255, self._shape, np.uint8)
        return replace(observation, images=images, extra=self._extra)


def bench(
    instructions: Sequence[str] = INSTRUCTIONS,
    *,
    epochs: int = 1,
    reducer: str = "mean",
    steps: int = 3,
    name: str = "bench",
    scorers: Sequence[str] = ("operator", "episode_length"),
    **scene: Any,
) -> Task:
    """Return a task with a scene for each instruction."""
    scenes = [
        Scene(id=f"scene-{number}", instruction=text, **scene)
        for number, text in enumerate(instructions)
    ]
    return Task(name, scenes, list(scorers), max_steps=steps, epochs=Epochs(epochs, reducer))


def grader(url: str, spool: Path, **options: Any) -> AutograderGrader:
    """Return the grader as the harness makes it, with a spool of the test."""
    return autograder(url=url, spool=str(spool), **options)


def settle(made: AutograderGrader, *, timeout_s: float = 30.0) -> int:
    """Wait until a grader has sent everything; return how much it has not."""
    return made._sender.close(time.monotonic() + timeout_s)


def saved_log(folder: Path) -> Any:
    """Return the one log in a folder, as the JSON on disk."""
    [path] = [path for path in folder.glob("*.json") if not path.name.endswith(".live.json")]
    return json.loads(path.read_text())


def trials_in(log: Any) -> list[dict[str, Any]]:
    """Return what a log on disk says of each trial."""
    return [
        {
            "judgement": sample["operator_judgements"][i],
            "source": sample["judgement_sources"][i],
            "note": sample["operator_notes"][i],
            "metadata": metadata,
            "marker": metadata["autograder"],
            "scores": sample["epochs"][i],
            "scene": sample["scene_id"],
        }
        for sample in log["samples"]
        for i, metadata in enumerate(sample["trial_metadata"])
    ]
