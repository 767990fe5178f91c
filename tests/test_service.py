"""The main job in real processes: trials go in, verdicts come out on records, ScoreCards follow."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from grader_service.client.types import Trial
from grader_service.judging.reply import parse_reply
from grader_service.judging.rubric import rubric_from_json
from grader_service.providers.stub import StubModel
from grader_service.records.canonical import digest, digest_of
from tests.support.judges import judge_at, pixel_judge
from tests.support.servers import RedisServer, start_redis
from tests.support.stack import AUTOGRADER, Stack, running
from tests.support.submitting import submit_all

# One service is graded once and looked at by all of these tests.
pytestmark = pytest.mark.xdist_group("service")

COCKPIT = [
    {"match": {"text": '"coverage":1,'}, "replies": [{"verdict": "success"}]},
    {"match": {"text": '"coverage":'}, "replies": [{"verdict": "failure"}]},
]


@dataclass(frozen=True)
class Graded:
    """A service whose runs `robots` and `cockpit` have ended."""

    stack: Stack
    cards: dict[str, bytes]
    trials: dict[str, Trial]
    asked: list[dict[str, Any]]


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with start_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


def grade(home: Path, redis: RedisServer, examples: Path) -> Iterator[Graded]:
    """Run a service, grade the 24 sample trials and three cockpit runs, and keep it running."""
    redis.flush()
    with pixel_judge() as pixels, StubModel() as stub:
        stub.script(COCKPIT)
        judges = {"pixels": judge_at(pixels, stub=False), "scripted": judge_at(stub.url)}
        with running(home, redis.url, judges) as stack, stack.client() as client:
            ids = submit_all(client, examples / "trials", run="robots", judge="pixels")
            ids += submit_all(client, examples / "a320", run="cockpit", judge="scripted")
            stack.wait_for("robots")
            stack.wait_for("cockpit")
            trials = {trial_id: client.trial(trial_id) for trial_id in ids}
            cards = {
                f"{t['scene_id']}{t['client_id']}": client.scorecard(t["id"])
                for t in trials.values()
            }
            yield Graded(stack, cards, {t["scene_id"]: t for t in trials.values()}, stub.log)


@pytest.fixture(scope="module")
def graded(
    tmp_path_factory: pytest.TempPathFactory, redis: RedisServer, sample_trials: Path
) -> Iterator[Graded]:
    yield from grade(tmp_path_factory.mktemp("home"), redis, sample_trials.parent)


def test_the_pixel_judge_is_right_or_abstains_on_at_least_22_of_24(
    graded: Graded, sample_trials: Path
) -> None:
    truths = json.loads((sample_trials / "trials.json").read_text())["trials"]
    verdicts = {entry["id"]: graded.trials[entry["id"]]["verdict"] for entry in truths}
    wrong = [
        entry["id"]
        for entry in truths
        if verdicts[entry["id"]] not in ("abstain", "success" if entry["success"] else "failure")
    ]
    assert len(wrong) <= 2, wrong
    assert verdicts["pad-06"] == verdicts["push-05"] == "abstain"
    assert sum(verdict != "abstain" for verdict in verdicts.values()) >= 20


def test_the_summary_keeps_the_three_accounts_apart(graded: Graded) -> None:
    with graded.stack.client() as client:
        summary = client.run("robots")
    assert summary["gradable"] == 24
    assert summary["graded"]["n"] + summary["abstained"]["n"] == 24
    assert summary["abstained"]["by_reason"].keys() == {"criteria_unclear"}
    assert summary["ungraded"]["n"] == summary["pending"]["n"] == 0
    rate, interval = summary["success_rate"], summary["interval"]
    assert interval is not None
    assert rate is not None
    assert interval["low"] < rate < interval["high"]


def test_a_run_that_a_stub_judged_shows_no_rate(graded: Graded) -> None:
    with graded.stack.client() as client:
        summary = client.run("cockpit")
    assert summary["graded"]["n"] == 3
    assert summary["success_rate"] is None
    assert str(summary["no_rate_because"]).startswith("STUB")


def test_a_graded_verdict_stands_on_the_record(graded: Graded) -> None:
    with graded.stack.client() as client:
        record = json.loads(client.record(graded.trials["pad-01"]["id"]))["record"]
    assert record["operator_judgement"] == "success"
    assert record["operator_note"]
    assert "grading_error" not in record["metadata"]


def test_an_abstention_leaves_nothing_on_the_record_but_its_reason(graded: Graded) -> None:
    with graded.stack.client() as client:
        trial = graded.trials["pad-06"]
        record = json.loads(client.record(trial["id"]))["record"]
        card = json.loads(client.scorecard(trial["id"]))
    assert record["operator_judgement"] is None
    assert record["operator_note"] is None
    assert record["metadata"] == {"grading_error": "abstained: criteria_unclear"}
    assert card["scores"]["operator"]["value"] is None
    assert card["judgement"]["outcome"] == "abstained"


def test_a_receipt_lets_anyone_decide_again(graded: Graded) -> None:
    with graded.stack.client() as client:
        for trial in graded.trials.values():
            [verdict] = client.verdicts(trial["id"])
            receipt = verdict["receipt"]
            assert receipt is not None
            rubric = rubric_from_json(receipt["rubric"]["text"])
            assert rubric.digest == receipt["rubric"]["digest"]
            decision = parse_reply(
                receipt["reply"]["wire"],
                receipt["reply"]["body"],
                rubric=rubric,
                token=receipt["token"],
            )
            assert (decision.outcome, decision.verdict, decision.reason) == (
                verdict["outcome"],
                verdict["verdict"],
                verdict["reason"],
            )


def test_the_receipt_names_the_frames_that_were_received_and_sent(
    graded: Graded, sample_trials: Path
) -> None:
    with graded.stack.client() as client:
        [verdict] = client.verdicts(graded.trials["pad-01"]["id"])
    assert verdict["receipt"] is not None
    shown = verdict["receipt"]["frames"]
    assert [(frame["phase"], frame["camera"]) for frame in shown] == [
        ("first", "front"),
        ("first", "overhead"),
        ("last", "front"),
        ("last", "overhead"),
    ]
    received = (sample_trials / "pad-01" / "initial_front.jpg").read_bytes()
    assert shown[0]["sha256_received"] == digest(received)
    assert max(frame["width"] for frame in shown) <= 768


def test_the_llm_judge_is_blind_to_who_flew(graded: Graded) -> None:
    texts = json.dumps([request["texts"] for request in graded.asked])
    assert len(graded.asked) == 3
    assert "lab/alpha-1" not in texts
    assert "20261105T110000Z" not in texts
    assert "scalar" not in texts


def test_the_cockpit_cards_keep_the_verified_order(graded: Graded) -> None:
    cards = [json.loads(card) for card in graded.cards.values()]
    scalars = sorted((c["scalar"] for c in cards if c["kind"] == "a320"), reverse=True)
    assert scalars == [1.0, 0.9, 0.55]
    assert all(card["judgement"]["source"] == "stub" for card in cards if card["kind"] == "a320")


def test_offline_scoring_of_an_export_gives_the_services_bytes(
    graded: Graded, tmp_path: Path
) -> None:
    for run in ("robots", "cockpit"):
        autograder(graded, "export", run, "-o", str(tmp_path / "records" / run))
    autograder(graded, "score", str(tmp_path / "records"), "--out", str(tmp_path / "cards"))
    offline = sorted(path.read_bytes() for path in (tmp_path / "cards").rglob("*.json"))
    assert offline == sorted(graded.cards.values())


def test_every_file_of_an_export_is_in_its_manifest(graded: Graded, tmp_path: Path) -> None:
    autograder(graded, "export", "robots", "-o", str(tmp_path))
    folders = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert len(folders) == 24
    for folder in folders:
        manifest = json.loads((folder / "manifest.json").read_text())
        files = {
            str(path.relative_to(folder)): digest(path.read_bytes())
            for path in folder.rglob("*")
            if path.is_file() and path.name != "manifest.json"
        }
        assert files == manifest["files"]
        newest = json.loads((folder / "verdicts.jsonl").read_text().splitlines()[-1])
        assert digest_of(newest["receipt"]) == manifest["newest_receipt"]


def test_a_second_service_gives_the_same_bytes(
    graded: Graded, tmp_path: Path, redis: RedisServer, sample_trials: Path
) -> None:
    for again in grade(tmp_path / "home", redis, sample_trials.parent):
        assert again.cards.keys() == graded.cards.keys()
        for name, card in again.cards.items():
            assert card == graded.cards[name]


def autograder(graded: Graded, *arguments: str) -> None:
    subprocess.run(
        [*AUTOGRADER, *arguments],
        env=graded.stack.environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )


def test_the_summary_adds_up_what_the_receipts_say_and_takes_no_unknown_price_for_zero(
    graded: Graded,
) -> None:
    with graded.stack.client() as client:
        summary = client.run("cockpit")
        receipts = [
            client.verdicts(trial["id"])[0]["receipt"] or {}
            for trial in client.trials(run="cockpit")
        ]
    tokens = sum(receipt["usage"]["input_tokens"] for receipt in receipts)
    assert summary["usage"]["answers"] == len(receipts) == 3
    assert summary["usage"]["input_tokens"] == tokens > 0
    assert summary["cost"] == {"usd": None, "unpriced": 3}
