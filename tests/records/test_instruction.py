"""Which instruction a trial was done by."""

from __future__ import annotations

import numpy as np
import pytest

from grader_service.records.saved import load_trial, save_trial
from grader_service.records.trial import (
    Action,
    Observation,
    Scene,
    StepRecord,
    StepResult,
    TrialRecord,
    instruction_told,
)


@pytest.mark.parametrize(
    ("used", "observed", "expected"),
    [
        (None, None, ("fold the cloth", "scene")),
        (None, "  ", ("fold the cloth", "scene")),
        (None, "fold the dish towel", ("fold the dish towel", "observation")),
        ("fold it", "fold the dish towel", ("fold it", "record")),
    ],
)
def test_a_judge_is_told_what_the_policy_was_told(
    used: str | None, observed: str | None, expected: tuple[str, str]
) -> None:
    step = StepRecord(
        t=0,
        observation=Observation(instruction=observed),
        action=Action(np.zeros(2)),
        result=StepResult(observation=Observation()),
    )
    record = TrialRecord(scene_id="s", epoch=1, seed=None, steps=[step])
    files = save_trial(record, Scene("s", "fold the cloth"), instruction_used=used)
    saved = load_trial(files.__getitem__)
    found = instruction_told(saved.record, saved.scene, used=saved.instruction_used)
    assert found == expected
