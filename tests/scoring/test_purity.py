"""Scoring reads records and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

ALLOWED = {"grader_service", "numpy", "pydantic", "rfc8785", *sys.stdlib_module_names}
# What those bring along: pydantic's own parts and numpy's start-up.
ALLOWED |= {"annotated_types", "pydantic_core", "typing_extensions", "typing_inspection"}

LOADED = """
import json, sys
before = set(sys.modules)
import grader_service.scoring
import grader_service.records.saved
print(json.dumps(sorted(set(sys.modules) - before)))
"""
SCORED = """
import builtins, io, json, os, random, socket, sys, time
from grader_service.scoring import default_scorers, resolve_scorers, robot_card, score_run
from grader_service.records.saved import load_trial, save_trial
from tests.records.examples import PLAIN_SCENE, rollout

files = save_trial(rollout(300), PLAIN_SCENE)

def forbidden(event, args):
    if event.split(".")[0] in ("open", "os", "socket", "subprocess", "shutil", "urllib"):
        raise AssertionError(f"scoring did {event} {args}")

def no_clock():
    raise AssertionError("scoring read a clock")

time.time = time.time_ns = time.monotonic = time.perf_counter = no_clock
random.random = os.urandom = no_clock
sys.addaudithook(forbidden)
saved = load_trial(files.__getitem__, check=True)
card = robot_card(saved, None, [*default_scorers(), *resolve_scorers(["vlm", "criteria_met"])])
print(len(card.canonical()), score_run([card]).metrics["operator"].trials)
"""


def run(program: str) -> Any:
    return subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout


def test_importing_scoring_loads_nothing_of_the_service_and_no_third_party_but_numbers() -> None:
    loaded = json.loads(run(LOADED))
    assert {name.split(".")[0] for name in loaded} - ALLOWED == set()
    ours = {name.split(".")[1] for name in loaded if name.startswith("grader_service.")}
    assert ours == {"records", "scoring", "errors"}


def test_scoring_opens_no_file_and_no_socket_and_reads_no_clock() -> None:
    size, trials = run(SCORED).split()
    assert int(size) > 500
    assert trials == "1"
