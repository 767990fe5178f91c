"""The short form of the chaos run (tests/chaos/run.py), and what must hold for its parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.run import KINDS, Plan, run
from tests.chaos.trials import make_trial, oracle


@pytest.mark.timeout(200)
def test_each_trial_gets_its_one_verdict_whatever_dies(tmp_path: Path) -> None:
    plan = Plan(
        seed=5,
        trials=60,
        seconds=150,
        submit_for=10,
        disturb_for=16,
        sqlite=True,
        latency=0.3,
        lease=4,
        database_stop=2,
        freeze=6,
        pause=(1.0, 2.0),
    )
    account = run(plan, tmp_path)
    assert account.problems == []
    assert set(account.disturbances) == set(KINDS)
    assert account.graded + account.abstained == account.submitted == plan.trials


def test_chaos_trials_are_the_same_each_time_and_all_different() -> None:
    trials = [make_trial(1, number) for number in range(50)]
    assert trials == [make_trial(1, number) for number in range(50)]
    assert len({frame for trial in trials for frame in trial.frames.values()}) == 100


def test_an_undisturbed_judge_gives_every_kind_of_verdict_to_chaos_trials() -> None:
    with oracle() as undisturbed:
        verdicts = [undisturbed.verdict(make_trial(1, number)) for number in range(40)]
        assert verdicts[0] == undisturbed.verdict(make_trial(1, 0))
    assert set(verdicts) == {"success", "failure", "abstain"}
