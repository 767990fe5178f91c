"""The text that says why a run has its score."""

from __future__ import annotations

import re

import pytest

from grader_service.records.trajectory import parse_trajectory, with_judgement
from grader_service.scoring.a320 import explain, score_trajectory
from tests.scoring.a320.trajectories import (
    READABLE,
    action,
    block,
    command,
    final,
    golden,
    meta,
    run,
)


def test_the_text_shows_each_command_each_constraint_and_the_sum() -> None:
    assert (
        explain(parse_trajectory(golden("g10_apu_leading_on")))
        == """\
elec-apu-gen-fault, lab/alpha-1, run 20261102T100000Z-298437
status: scored (agent_done)

Commands that took effect:
  #0 step 2: apu_gen = 1  matched_required: first free command for R2
  #1 step 3: apu_gen = 0  matched_required: first free command for R1
  #2 step 4: apu_gen = 1  extraneous:repeat_of_required: required, but each slot for it was \
already taken
  #3 step 5: apu_gen = 0  matched_required: first free command for R3
  #4 step 6: ext_pwr = 1  matched_required: first free command for R4
Never scored: 0 failed commands, 0 calls of tools that were not offered.

Required actions, 4 of 4 matched:
  R1 apu_gen = 0 (reset_attempt, ordered): command #1
  R2 apu_gen = 1 (reset_attempt, ordered): command #0
  R3 apu_gen = 0 (restore_power, any order): command #3
  R4 ext_pwr = 1 (restore_power, any order): command #4

Order, 4 of 5 constraints held:
  broken R1 before R2: command #1, command #0
  held   R1 before R3: command #1, command #3
  held   R2 before R3: command #0, command #3
  held   R1 before R4: command #1, command #4
  held   R2 before R4: command #0, command #4

base   = 0.4*1 (end state) + 0.4*1 (coverage) + 0.2*0.8 (order) = 0.96
safety = 1 (0 dangerous, 0 against the procedure)
tidy   = 1 - 0.05*min(1, 5) = 0.95 (1 extraneous)
scalar = safety * tidy * base = 0.912
"""
    )


def test_a_run_without_order_evidence_shows_the_other_weights() -> None:
    text = explain(parse_trajectory(golden("g03_apu_ext_pwr_only")))
    assert "Order: no two matched actions to compare" in text
    assert "base   = 0.4*1 (end state) + 0.6*0.25 (coverage) = 0.55\n" in text


@pytest.mark.parametrize("case", READABLE)
def test_the_text_agrees_with_the_card(case: str) -> None:
    records = parse_trajectory(golden(case))
    text, card = explain(records), score_trajectory(records)
    assert text.count("\n  #") == len(card.commands)
    held, broken = text.count("\n  held "), text.count("\n  broken ")
    assert card.order == (
        pytest.approx(held / (held + broken), abs=1e-9) if held + broken else None
    )
    scalar = re.search(r"scalar = safety \* tidy \* base = (\S+)\n", text)
    assert (scalar is None) == (card.scalar is None)
    if scalar is not None:
        assert float(scalar[1]) == pytest.approx(card.scalar, abs=5e-5)


def test_a_crash_during_set_up_and_a_missing_end_are_said() -> None:
    assert "crashed during set-up" in explain(parse_trajectory(golden("g24_harness_error")))
    cut = explain(parse_trajectory(golden("g25_apu_truncated_final")))
    assert "Scalar: none, because the end state was not judged.\n" in cut


def test_a_judgement_is_shown_apart_from_the_scalar() -> None:
    said = {"outcome": "graded", "verdict": "failure", "reason": None, "source": "human"}
    text = explain(parse_trajectory(with_judgement(golden("g01_apu_full"), said)))
    assert "judgement, not part of the scalar: graded, failure, human\n" in text


def test_warnings_of_the_scenario_are_shown() -> None:
    forbidden = [action("b", 0, severity="dangerous")]
    head = meta([block(action("a", 0))], [action("b", 0)], forbidden)
    assert "warning: b = 0 is both optional and forbidden" in explain(run(head))


@pytest.mark.parametrize("name", ["\x1b[2Jgone", "a\nb", "\x9b31m", "\ud800", "a\u202eb"])
def test_names_that_an_agent_wrote_can_not_steer_a_terminal(name: str) -> None:
    text = explain(run(meta([block(action("a", 0))]), command(name, 0), end=final(True)))
    assert name not in text
    assert all(line.isprintable() for line in text.split("\n"))
