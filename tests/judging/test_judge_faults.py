"""Every fault of the stub, through a whole judge on every wire: the endings that docs promise."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from grader_service.errors import TryLaterError
from grader_service.judging.evidence import Evidence
from grader_service.judging.judge import Judge, Judged
from grader_service.judging.receipt import Case
from grader_service.judging.rubric import library_rubric
from grader_service.providers.stub import StubModel
from grader_service.providers.stub.faults import NAMES, Fault
from tests.judging.conftest import JudgeOf, Kind

DOCS = Path(__file__).parents[2] / "docs" / "judge-endings.md"
CASE = Case("trial-1", "d" * 64, 0, library_rubric("robot/place-in-goal"))
TRIES_LATER = {"later", "waits"}

kinds = pytest.mark.parametrize("kind", ["openai", "openai-responses", "anthropic"])


class Ending(NamedTuple):
    """What a fault comes to, as the table in the docs says."""

    fault: str
    outcome: str
    reason: str | None
    calls: int


def read_endings() -> list[Ending]:
    rows = [line.strip("| ").split(" | ") for line in DOCS.read_text("utf-8").splitlines()]
    return [
        Ending(fault, outcome, None if reason == "none" else reason.strip("`"), int(calls))
        for row in rows
        if len(row) == 5 and row[4].isdecimal()
        for _, faults, outcome, reason, calls in [row]
        for fault in re.findall("`(.+?)`", faults)
    ]


ENDINGS = read_endings()


@pytest.fixture
def one_frame(trial: list[Evidence]) -> list[Evidence]:
    return [frame for frame in trial if (frame.phase, frame.camera) == ("last", "front")]


def ask(judge: Judge, frames: list[Evidence]) -> Judged:
    return judge.judge_frames(CASE, instruction="Place the cube.", frames=frames)


def test_the_docs_tell_the_ending_of_every_fault_once() -> None:
    faults = [ending.fault for ending in ENDINGS]
    assert len(faults) == len(set(faults))
    assert {Fault.parse(fault).name for fault in faults} >= NAMES
    statuses = {400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 503, 529}
    assert set(faults) >= {str(status) for status in statuses}


@kinds
@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.fault)
def test_every_fault_ends_as_the_docs_say_and_costs_no_more_calls(
    judge_of: JudgeOf, model: StubModel, one_frame: list[Evidence], kind: Kind, ending: Ending
) -> None:
    model.script([{"match": {}, "replies": [{"verdict": "success"}]}])
    endless = ending.fault.startswith(("hang", "drip"))
    # Where a status comes first, it must have come before the deadline.
    deadline_s = (1.0 if "status" in ending.fault else 0.3) if endless else 20.0
    judge = judge_of(kind=kind, name=f"stub:{ending.fault}", deadline_s=deadline_s)
    if ending.outcome in TRIES_LATER:
        with pytest.raises(TryLaterError) as caught:
            ask(judge, one_frame)
        assert caught.value.reason == ending.reason
        assert caught.value.counts == (ending.outcome == "later")
        # What the row ends in when this was the last try.
        judged = judge.failed(CASE, caught.value)
        outcome = "ungraded"
    else:
        judged, outcome = ask(judge, one_frame), ending.outcome
    decision = judged.decision
    assert (decision.outcome, decision.reason) == (outcome, ending.reason)
    verdict = {"graded": "success", "abstained": "abstain", "ungraded": None}[outcome]
    assert decision.verdict == verdict
    assert judged.receipt["outcome"] == {
        "outcome": outcome,
        "verdict": verdict,
        "reason": ending.reason,
    }
    assert len(model.log) == ending.calls


@kinds
@pytest.mark.parametrize(
    "ending", [ending for ending in ENDINGS if ending.calls == 2], ids=lambda ending: ending.fault
)
def test_a_fault_that_passes_costs_one_repair_and_leaves_a_vote(
    judge_of: JudgeOf, model: StubModel, one_frame: list[Evidence], kind: Kind, ending: Ending
) -> None:
    model.script([{"match": {}, "replies": [{"fault": ending.fault}, {"verdict": "failure"}]}])
    judged = ask(judge_of(kind=kind), one_frame)
    assert (judged.decision.outcome, judged.decision.verdict) == ("graded", "failure")
    [vote] = judged.receipt["votes"]
    assert vote["outcome"]["reason"] == ending.reason
    budgets = [
        next(count for name, count in request["parameters"].items() if "tokens" in name)
        for request in model.log
    ]
    assert budgets == [4096, 8192 if ending.reason == "reply_truncated" else 4096]


@kinds
@pytest.mark.parametrize(
    ("wait", "seconds"),
    [
        ("ra=7", 7.0),
        ("ra=0.25", 0.25),
        ("ram=250", 0.25),
        ("ra=date+30", pytest.approx(25, abs=5)),
        ("ra=date-30", 0.0),
        ("ra=-5", 0.0),
        ("ra=4294967295", 900.0),
        ("ra=inf", 900.0),
        ("ra=Fri, 31 Dec 9999 23:59:59 GMT", 900.0),
        ("ra=nan", None),
        ("ra=soon", None),
        ("ra=Fri, 99 Foo 99999 99:99:99 GMT", None),
    ],
)
def test_the_wait_that_an_endpoint_asks_for_is_kept_and_capped(
    judge_of: JudgeOf, one_frame: list[Evidence], kind: Kind, wait: str, seconds: float | None
) -> None:
    with pytest.raises(TryLaterError) as caught:
        ask(judge_of(kind=kind, name=f"stub:429;{wait}"), one_frame)
    assert caught.value.retry_after == seconds


@kinds
def test_frames_are_not_sent_on_to_where_an_endpoint_redirects(
    judge_of: JudgeOf, one_frame: list[Evidence], kind: Kind
) -> None:
    with StubModel() as elsewhere:
        judged = ask(judge_of(kind=kind, name=f"stub:redirect:{elsewhere.port}"), one_frame)
        assert elsewhere.log == []
    assert judged.decision.reason == "provider_rejected"
    assert "base_url" in judged.receipt["error"]


@kinds
def test_a_repair_that_has_to_wait_counts_since_a_reply_was_billed_for_it(
    judge_of: JudgeOf, model: StubModel, one_frame: list[Evidence], kind: Kind
) -> None:
    model.script([{"match": {}, "replies": [{"fault": "malformed_json"}, {"fault": "429;ra=2"}]}])
    with pytest.raises(TryLaterError) as caught:
        ask(judge_of(kind=kind), one_frame)
    assert (caught.value.counts, caught.value.retry_after) == (True, 2.0)
    assert len(model.log) == 2
