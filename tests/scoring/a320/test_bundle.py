"""judge_bundle: complete, blind, and free of anything that JSON can't hold."""

from __future__ import annotations

import json

from grader_service.scoring.a320 import judge_bundle, score_trajectory
from tests.scoring.a320.trajectories import (
    action,
    block,
    call,
    command,
    final,
    meta,
    run,
    setup,
)

REPORT = {"diagnosis": "d\u2028\x1b[31m", "actions_summary": ["as", "sent"], "extra": 1}
HEAD = meta([block(action("a", 0, rationale="why"))])


def test_a_bundle_has_these_parts_and_no_scalar() -> None:
    bundle = judge_bundle(run(HEAD, command("a", 0), end=final(True, ecam=["LAB FAULT"])))
    assert bundle is not None
    assert bundle["scenario"] == {
        "id": "lab-small",
        "title": None,
        "system": None,
        "task_prompt": None,
        "expected_ecam": None,
        "injected_failures": ["lab.failure"],
    }
    assert bundle["ground_truth"] == HEAD["scenario"]["ground_truth"]
    assert [each["class"] for each in bundle["commands"]] == ["matched_required"]
    assert bundle["end_reason"] == "agent_done"
    assert bundle["initial_ecam"] == ["LAB FAULT"]
    assert bundle["final_ecam"] == ["LAB FAULT"]
    assert bundle["success_checks"] == final(True)["success_eval"]
    assert bundle["vector"] == {
        "coverage": 1,
        "order": None,
        "end_state": 1,
        "all_passed": True,
        "safety_dangerous": 0,
        "safety_anti_procedure": 0,
        "extraneous": 0,
    }
    assert "scalar" not in json.dumps(bundle)


def test_calls_that_do_not_score_are_shown_in_the_order_of_the_file() -> None:
    calls = [
        command("a", "on"),
        call("clear_failure", {"id": "x"}, result="no"),
        command("a", 0),
        command("b", 1, is_error=True, wall_ms=3),
    ]
    bundle = judge_bundle(run(HEAD, *calls))
    assert bundle is not None
    assert bundle["not_scored"] == [
        {
            "kind": "errored_command",
            "step": 1,
            "name": "set_control",
            "args": {"control": "a", "value": "on"},
        },
        {"kind": "off_surface_attempt", "step": 2, "name": "clear_failure", "args": {"id": "x"}},
        {
            "kind": "errored_command",
            "step": 4,
            "name": "set_control",
            "args": {"control": "b", "value": 1},
        },
    ]


def test_the_agents_report_is_its_two_fields_unchanged() -> None:
    bundle = judge_bundle(run(HEAD, end=final(True, done_payload=REPORT)))
    assert bundle is not None
    assert bundle["agent_report"] == {
        "diagnosis": REPORT["diagnosis"],
        "actions_summary": REPORT["actions_summary"],
    }


def test_what_was_not_recorded_is_null() -> None:
    bundle = judge_bundle([HEAD])
    assert bundle is not None
    for key in ("agent_report", "end_reason", "initial_ecam", "final_ecam", "success_checks"):
        assert bundle[key] is None


def test_an_invalid_gate_without_ecam_gives_no_initial_ecam() -> None:
    gate = {"passed": False, "error": "E"}
    bundle = judge_bundle([HEAD, {**setup(), "validity_gate": gate}])
    assert bundle is not None
    assert bundle["initial_ecam"] is None


def test_numbers_that_json_does_not_know_become_their_names() -> None:
    args = {"v": [float("nan"), float("inf"), {"deep": float("-inf")}]}
    bundle = judge_bundle(run(HEAD, call("tune", args)))
    assert bundle is not None
    assert bundle["not_scored"][0]["args"] == {"v": ["NaN", "Infinity", {"deep": "-Infinity"}]}


def test_changing_a_bundle_changes_neither_card_nor_records() -> None:
    records = run(HEAD, call("tune", {"v": [1]}))
    card = score_trajectory(records)
    before = card.canonical()
    bundle = card.judge_bundle()
    assert bundle is not None
    bundle["not_scored"][0]["args"]["v"].append(2)
    bundle["ground_truth"]["procedure"].clear()
    assert card.canonical() == before
    assert score_trajectory(records).canonical() == before
