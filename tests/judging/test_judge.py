"""A judge, over the real SDKs against a stub model: what is asked, and what is never asked."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest
from PIL import Image

from grader_service.errors import TryLaterError
from grader_service.judging.evidence import Evidence, choose_frames
from grader_service.judging.judge import JudgeConfig
from grader_service.judging.receipt import Case
from grader_service.judging.rubric import library_rubric
from grader_service.providers.base import ProviderConfig
from grader_service.providers.stub import StubModel
from grader_service.records.canonical import canonical_bytes
from tests.judging.conftest import JudgeOf, Kind, evidence

FRAMES = Case("trial-1", "d" * 64, 0, library_rubric("robot/place-in-goal"))
BUNDLE = Case("trial-2", "d" * 64, 0, library_rubric("a320/procedure-reasoning"))


def grey(level: int = 128) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (640, 480), (level, level, level)).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["openai", "openai-responses", "anthropic"])
def test_every_wire_shows_the_same_prompt_and_gives_the_same_verdict(
    judge_of: JudgeOf, model: StubModel, trial: list[Evidence], kind: Kind
) -> None:
    model.script([{"match": {}, "replies": [{"verdict": "failure", "rationale": "It fell."}]}])
    judged = judge_of(kind=kind).judge_frames(FRAMES, instruction="Go.", frames=trial)
    assert (judged.decision.outcome, judged.decision.verdict) == ("graded", "failure")
    [request] = model.log
    labels = [text for text in request["texts"] if text.startswith("Frame ")]
    assert [re.sub("<.+?>", "", label) for label in labels] == [
        "Frame 1 of 4: FIRST, camera front",
        "Frame 2 of 4: FIRST, camera overhead",
        "Frame 3 of 4: LAST, camera front",
        "Frame 4 of 4: LAST, camera overhead",
    ]
    sent = [image["sha256"] for image in request["images"]]
    assert sent == [frame["sha256_sent"] for frame in judged.receipt["frames"]]


def test_no_model_or_policy_name_is_in_the_prompt(
    judge_of: JudgeOf, model: StubModel, trial: list[Evidence]
) -> None:
    judge_of(name="gpt-secret").judge_frames(FRAMES, instruction="Go.", frames=trial)
    [request] = model.log
    assert "gpt-secret" not in json.dumps([request["system"], request["texts"]])


def test_an_endpoint_without_structured_output_is_asked_for_a_line(
    judge_of: JudgeOf, model: StubModel, trial: list[Evidence]
) -> None:
    judge = judge_of(name="stub:reject:response_format")
    judged = judge.judge_frames(FRAMES, instruction="Go.", frames=trial)
    assert judged.receipt["judge"]["rung"] == "text"
    assert judged.decision.outcome in ("graded", "abstained")
    calls = len(model.log)
    judge.judge_frames(FRAMES, instruction="Go.", frames=trial)
    assert len(model.log) == calls + 1, "what the endpoint refuses is learnt once"


def test_swapped_frames_are_another_question(
    judge_of: JudgeOf, model: StubModel, trial: list[Evidence]
) -> None:
    swapped = [
        Evidence(f.camera, "last" if f.phase == "first" else "first", f.sha256, f.data)
        for f in trial
    ]
    # A rule makes the stub work out what it was asked.
    model.script([{"match": {}, "per_key": True, "replies": [{"verdict": "success"}]}])
    judge = judge_of()
    judge.judge_frames(FRAMES, instruction="Go.", frames=trial)
    judge.judge_frames(FRAMES, instruction="Go.", frames=swapped)
    judge.judge_frames(FRAMES, instruction="Go.", frames=list(reversed(trial)))
    keys = [request["key"] for request in model.log]
    assert keys[0] != keys[1]
    assert keys[0] == keys[2]


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        (None, "evidence_missing"),
        (b"\xff\xd8\xff truncated", "evidence_unreadable"),
        (grey(0), "evidence_unreadable"),
        (grey(255), "evidence_unreadable"),
        (grey(128), "evidence_unreadable"),
    ],
)
def test_without_readable_evidence_nothing_is_asked(
    judge_of: JudgeOf, model: StubModel, trial: list[Evidence], last: bytes | None, reason: str
) -> None:
    frames = [frame for frame in trial if frame.phase == "first"]
    if last is not None:
        frames.append(evidence("front", "last", last))
    judged = judge_of().judge_frames(FRAMES, instruction="Go.", frames=frames)
    assert (judged.decision.outcome, judged.decision.reason) == ("ungraded", reason)
    assert judged.receipt["error"]
    assert model.log == []


def test_identical_first_and_last_frames_are_flagged_and_judged(
    judge_of: JudgeOf, model: StubModel, trial: list[Evidence]
) -> None:
    first = next(frame for frame in trial if frame.phase == "first")
    frames = [first, Evidence(first.camera, "last", first.sha256, first.data)]
    judged = judge_of().judge_frames(FRAMES, instruction="Go.", frames=frames)
    assert judged.receipt["flags"] == [f"first_and_last_identical:{first.camera}"]
    assert len(model.log) == 1


def test_parked_frames_take_the_place_of_the_last_ones_and_cameras_are_capped() -> None:
    frames = [
        evidence(f"c{number}", phase, b"x")
        for number in (3, 1, 2)
        for phase in ("first", "last", "parked")
    ]
    chosen = choose_frames(frames, max_cameras=2)
    assert [(frame.phase, frame.camera) for frame in chosen] == [
        ("first", "c1"),
        ("first", "c2"),
        ("parked", "c1"),
        ("parked", "c2"),
    ]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("401", "provider_auth"),
        ("404", "provider_rejected"),
        ("quota", "provider_quota"),
        ("redirect", "provider_rejected"),
        ("bad_body", "reply_invalid"),
        ("refusal", "judge_refused"),
        ("length", "reply_truncated"),
        ("empty", "reply_empty"),
        ("conflicting", "reply_conflicting"),
        ("dup_keys", "reply_invalid"),
        ("wrong_token", "reply_mismatched"),
    ],
)
def test_what_cannot_be_used_is_ungraded_with_its_reason_and_a_receipt(
    judge_of: JudgeOf, model: StubModel, trial: list[Evidence], fault: str, reason: str
) -> None:
    judged = judge_of(name=f"stub:{fault}").judge_frames(FRAMES, instruction="Go.", frames=trial)
    assert (judged.decision.outcome, judged.decision.verdict) == ("ungraded", None)
    assert judged.decision.reason == judged.receipt["outcome"]["reason"] == reason
    assert json.loads(canonical_bytes(judged.receipt)) == judged.receipt


@pytest.mark.parametrize("fault", ["500", "503", "529", "429;ra=3", "rst", "close"])
def test_what_may_pass_is_for_the_queue_to_try_again(
    judge_of: JudgeOf, model: StubModel, trial: list[Evidence], fault: str
) -> None:
    with pytest.raises(TryLaterError) as caught:
        judge_of(name=f"stub:{fault}").judge_frames(FRAMES, instruction="Go.", frames=trial)
    assert caught.value.counts is not fault.startswith("429")
    assert len(model.log) == 1


@pytest.mark.parametrize(
    "bundle",
    [
        None,
        {},
        {"scenario": {}, "commands": [], "agent_report": None},
        {"commands": [], "agent_report": {"diagnosis": None, "actions_summary": None}},
        {"commands": [], "agent_report": {"diagnosis": " : ", "actions_summary": ["\u200b", 7]}},
    ],
)
def test_a_run_without_commands_or_report_is_abstained_on_without_a_call(
    judge_of: JudgeOf, model: StubModel, bundle: dict[str, Any] | None
) -> None:
    judged = judge_of().judge_bundle(BUNDLE, bundle=bundle)
    assert (judged.decision.outcome, judged.decision.reason) == ("abstained", "nothing_to_judge")
    assert model.log == []


def test_a_judges_identity_is_what_could_change_its_answers_and_not_its_key(
    model: StubModel,
) -> None:
    def digest_of(name: str = "m", key: str = "k", **changes: Any) -> str:
        provider = ProviderConfig(kind="openai", model=name, base_url=model.url, api_key=key)
        return JudgeConfig("j", provider, **changes).digest

    assert digest_of() == digest_of(key="other")
    assert len({digest_of(), digest_of("n"), digest_of(max_tokens=99), digest_of(stub=True)}) == 4


def test_the_source_says_what_kind_of_judge_spoke(judge_of: JudgeOf, model: StubModel) -> None:
    assert judge_of().source("robot") == judge_of().source("a320") == "stub"
    assert judge_of(stub=False).source("robot") == "vlm"
    assert judge_of(stub=False).source("a320") == "llm_judge"


def test_a_receipt_names_the_one_before_it(
    judge_of: JudgeOf, model: StubModel, trial: list[Evidence]
) -> None:
    case = Case("t", "d", 1, FRAMES.rubric, previous_receipt="a" * 64)
    judged = judge_of().judge_frames(case, instruction="Go.", frames=trial)
    assert judged.receipt["previous_receipt"] == "a" * 64
    assert judged.receipt["schema"] == "receipt/1"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("malformed_json", "reply_invalid"),
        ("conflicting", "reply_conflicting"),
        ("length", "reply_truncated"),
    ],
)
def test_a_reply_that_is_unusable_by_accident_is_asked_for_once_again(
    judge_of: JudgeOf, model: StubModel, trial: list[Evidence], fault: str, reason: str
) -> None:
    model.script([{"match": {}, "replies": [{"fault": fault}, {"verdict": "success"}]}])
    judged = judge_of().judge_frames(FRAMES, instruction="Go.", frames=trial)
    assert judged.decision.verdict == "success"
    [vote] = judged.receipt["votes"]
    assert vote["outcome"]["reason"] == reason
    assert vote["reply"] != judged.receipt["reply"]
    first, second = model.log
    assert first["texts"] == second["texts"]
    budgets = [request["parameters"]["max_completion_tokens"] for request in (first, second)]
    assert budgets == ([4096, 8192] if reason == "reply_truncated" else [4096, 4096])


@pytest.mark.parametrize("fault", ["malformed_json", "refusal", "wrong_token", "empty"])
def test_nothing_is_asked_more_than_twice(
    judge_of: JudgeOf, model: StubModel, trial: list[Evidence], fault: str
) -> None:
    judged = judge_of(name=f"stub:{fault}").judge_frames(FRAMES, instruction="Go.", frames=trial)
    assert judged.decision.outcome == "ungraded"
    assert len(model.log) == (2 if fault == "malformed_json" else 1)
