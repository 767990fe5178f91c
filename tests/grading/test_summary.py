"""The run summary tells what a run took and what went wrong in it."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from grader_service.api.body import Limits
from grader_service.grading.judges import Judges
from grader_service.grading.service import Service
from grader_service.grading.summary import run_summary
from grader_service.judging.prompt import Marks
from grader_service.providers.stub import StubModel
from grader_service.records.verdict import Decision
from grader_service.storage import trials, verdicts
from grader_service.storage.blobs import BlobStore
from grader_service.storage.database import Database
from tests.support.in_process import in_process
from tests.support.judges import judge_at

RUBRIC = "r" * 64


@pytest.fixture
def service(database: Database, tmp_path: Path) -> Service:
    return Service(database, BlobStore(str(tmp_path / "blobs")), Judges({}, None))


def judged(
    service: Service, verdict: Any, *, usd: str | None, mode: str | None = None, run: str = "r"
) -> None:
    cost = None if usd is None else {"usd": usd, "source": "settings", "model": "m"}
    receipt = {
        "reply": {"wire": "text", "body": ""},
        "usage": {"input_tokens": 1000, "output_tokens": 100},
        "cost": cost,
        "failure_mode": mode,
    }
    new = trials.NewTrial(
        service.tenant, run, None, "c", "robot", "s", 0, None, RUBRIC, "d", [], []
    )
    with service.database.write() as unit:
        trials.put_rubric(unit, digest=RUBRIC, rubric_id="x", body={})
        verdicts.append(
            unit,
            trial_id=trials.add(unit, new),
            source="vlm",
            decision=Decision.graded(verdict),
            receipt=receipt,
        )


def test_usage_cost_and_failure_modes_of_a_run(service: Service) -> None:
    judged(service, "failure", usd="0.0003", mode="dropped")
    judged(service, "failure", usd="0.0003", mode="dropped")
    judged(service, "failure", usd=None, mode="missed_grasp")
    judged(service, "failure", usd="0.0003")
    judged(service, "success", usd="0.0003", mode="other")
    summary = run_summary(service, "r")
    assert summary["failure_modes"] == {"dropped": 2, "missed_grasp": 1}
    assert summary["usage"] == {
        "answers": 5,
        "input_tokens": 5000,
        "output_tokens": 500,
        "unknown": 0,
    }
    assert summary["cost"] == {"usd": "0.0012", "unpriced": 1}
    assert summary["graded"] == {"n": 5, "success": 1, "failure": 4}


def test_a_run_of_unknown_prices_shows_no_sum(service: Service) -> None:
    judged(service, "success", usd=None)
    assert run_summary(service, "r")["cost"] == {"usd": None, "unpriced": 1}


def test_a_run_that_waits_has_cost_nothing_so_far(service: Service) -> None:
    new = trials.NewTrial(
        service.tenant, "w", None, "c", "robot", "s", 0, None, RUBRIC, "d", [], []
    )
    with service.database.write() as unit:
        trials.put_rubric(unit, digest=RUBRIC, rubric_id="x", body={})
        trials.add(unit, new)
    summary = run_summary(service, "w")
    assert summary["cost"] == {"usd": "0", "unpriced": 0}
    assert summary["failure_modes"] == {}


def test_price_and_failure_mode_of_a_real_grading_reach_the_summary(
    sample_trials: Path, tmp_path: Path
) -> None:
    frame = (sample_trials / "pad-01" / "final_front.jpg").read_bytes()
    trial = {
        "kind": "robot",
        "run": "r",
        "scene": {"id": "pad-01", "instruction": "Go."},
        "rubric": {
            "criteria": [{"id": "in", "text": "It lies in the area."}],
            "failure_modes": ["dropped"],
        },
        "frames": [{"camera": "front", "phase": "last", "part": "f0"}],
    }
    price = {"input_mtok": 10_000, "output_mtok": 0}
    with StubModel() as stub:
        judge = judge_at(stub.url, stub=False, price=price)
        with in_process(tmp_path, judge, Limits()) as service:
            trial_id = service.submit(trial, {"f0": frame}).json()["id"]
            reply = {
                "token": Marks.of((tmp_path / "secret").read_bytes(), trial_id, 0).token,
                "criteria": [{"id": "in", "evidence": "It lies on the floor.", "met": "no"}],
                "verdict": "failure",
                "failure_mode": "dropped",
            }
            stub.script([{"match": {}, "replies": [{"text": json.dumps(reply)}]}])
            service.grade()
            receipt = service.receipt(trial_id)
            summary = service.api.get("/v1/runs/r").json()
    tokens = receipt["usage"]["input_tokens"]
    assert summary["usage"]["input_tokens"] == tokens > 0
    assert summary["cost"] == {"usd": receipt["cost"]["usd"], "unpriced": 0}
    assert Decimal(summary["cost"]["usd"]) == Decimal(tokens) / 100
    assert summary["failure_modes"] == {"dropped": 1}
