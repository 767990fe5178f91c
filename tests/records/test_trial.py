"""Live objects of inspect_robots become ours and the other way round, nothing lost."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import inspect_robots
import numpy as np
import pytest
from inspect_robots import rollout as upstream_rollout
from inspect_robots import transcript, types

from grader_service.records import trial
from grader_service.records.saved import save_trial
from tests.records.examples import PLAIN_SCENE, assert_same, odd_trial, rollout


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (trial.Observation, types.Observation),
        (trial.Action, types.Action),
        (trial.StepResult, types.StepResult),
        (trial.StepRecord, upstream_rollout.StepRecord),
        (trial.TrialRecord, upstream_rollout.TrialRecord),
        (trial.Event, transcript.Event),
        (trial.Scene, inspect_robots.Scene),
        (trial.Target, inspect_robots.Target),
    ],
)
def test_each_class_has_the_attributes_of_inspect_robots(ours: Any, theirs: Any) -> None:
    def surface(cls: Any) -> list[tuple[str, object, object]]:
        return [
            (
                field.name,
                field.default,
                None if field.default_factory is list else field.default_factory,
            )
            for field in fields(cls)
        ]

    assert surface(ours) == surface(theirs)


def test_there_and_back_gives_the_same_trial() -> None:
    record, scene = odd_trial()
    theirs, their_scene = trial.to_upstream(record, scene)
    assert type(theirs.steps[0].result) is types.StepResult
    assert type(theirs.events[0]) is transcript.Event
    assert type(their_scene.target) is inspect_robots.Target
    ours, our_scene = trial.from_upstream(theirs, their_scene)
    assert_same(record, ours)
    assert_same(scene, our_scene)


def test_observations_that_steps_share_stay_shared() -> None:
    theirs, _ = trial.to_upstream(rollout(5), PLAIN_SCENE)
    ours, _ = trial.from_upstream(theirs, PLAIN_SCENE)
    for record in (theirs, ours):
        assert record.steps[1].observation is record.steps[0].result.observation


def test_a_live_record_is_saved_as_ours_is() -> None:
    record, scene = odd_trial()
    assert save_trial(*trial.to_upstream(record, scene)) == save_trial(record, scene)


def test_attributes_that_only_a_newer_harness_knows_go_along() -> None:
    theirs, scene = trial.to_upstream(rollout(1), PLAIN_SCENE)
    theirs.energy_j = np.float32(3)
    ours, _ = trial.from_upstream(theirs, scene)
    again, _ = trial.to_upstream(ours, PLAIN_SCENE)
    assert_same(again.energy_j, np.float32(3))


def test_changing_the_copy_leaves_the_live_record_alone() -> None:
    theirs, scene = trial.to_upstream(rollout(2), PLAIN_SCENE)
    events = len(theirs.events)
    ours, _ = trial.from_upstream(theirs, scene)
    ours.events.append(trial.Event("note", 0))
    ours.metadata["seen"] = True
    assert len(theirs.events) == events
    assert theirs.metadata == {}
