"""Trials for the chaos run: made on the fly, each with content of its own, and what they are worth.

Nothing here comes from the service under test: the expected verdict is what the same judge says
when it is asked once, in this process, by a model that never fails.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from grader_service.judging.evidence import Evidence
from grader_service.judging.judge import Judge, JudgeConfig
from grader_service.judging.receipt import Case
from grader_service.judging.rubric import DEFAULT_FRAMES, library_rubric
from grader_service.providers import build_provider
from grader_service.providers.base import ProviderConfig
from grader_service.providers.stub import StubModel
from grader_service.records.canonical import digest

SIDE = 64
_BLOCK = 8


@dataclass(frozen=True)
class Trial:
    """One submission: what `Client.submit` takes, and the same for a judge."""

    client_id: str
    instruction: str
    frames: dict[str, bytes]
    run: str

    @property
    def form(self) -> dict[str, Any]:
        return {
            "kind": "robot",
            "run": self.run,
            "client_id": self.client_id,
            "scene": {"id": self.client_id, "instruction": self.instruction},
            "frames": [{"camera": "front", "phase": phase, "part": phase} for phase in self.frames],
        }


def make_trial(seed: int, number: int, *, run: str = "chaos") -> Trial:
    """Return trial `number` of a seed: the same each time, and like no other."""
    random = np.random.default_rng([seed, number])
    return Trial(
        client_id=f"rig-{number:04}",
        instruction=f"Put object {number} into the goal area.",
        frames={phase: _picture(random) for phase in ("first", "last")},
        run=run,
    )


def _picture(random: np.random.Generator) -> bytes:
    """Return a small JPEG of coloured squares, so it has contrast."""
    squares = random.integers(0, 256, (SIDE // _BLOCK, SIDE // _BLOCK, 3), dtype=np.uint8)
    pixels = squares.repeat(_BLOCK, axis=0).repeat(_BLOCK, axis=1)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


class Oracle:
    """Says what an undisturbed run gives."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._rubric = library_rubric(DEFAULT_FRAMES)

    def verdict(self, trial: Trial) -> str:
        """Return success, failure or abstain."""
        case = Case(trial.client_id, record_digest="", round=0, rubric=self._rubric)
        frames = [
            Evidence("front", phase, digest(data), data) for phase, data in trial.frames.items()
        ]
        judged = self._judge.judge_frames(case, instruction=trial.instruction, frames=frames)
        if judged.decision.verdict is None:
            raise AssertionError(f"{trial.client_id} is no trial to judge: {judged.decision}")
        return str(judged.decision.verdict)


@contextmanager
def oracle() -> Iterator[Oracle]:
    with StubModel() as model:
        config = JudgeConfig("oracle", ProviderConfig("openai", "m", base_url=model.url), stub=True)
        provider = build_provider(config.provider)
        try:
            yield Oracle(Judge(config, provider, secret=b"oracle"))
        finally:
            provider.close()
