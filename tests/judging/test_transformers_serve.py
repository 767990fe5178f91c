"""A judge against a server that this project did not write: `transformers serve`.

Opt in with `make test-transformers`, which installs torch and transformers apart. The model is tiny
and random, so that its answers are noise: what is tested is the way there and back.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader_service.cli.processes import free_port, wait_for_port
from grader_service.judging.evidence import Evidence
from grader_service.judging.judge import Judge, JudgeConfig
from grader_service.judging.receipt import Case
from grader_service.judging.rubric import library_rubric
from grader_service.judging.stored_receipt import changes, read_receipt
from grader_service.providers import build_provider
from grader_service.providers.base import ProviderConfig
from grader_service.records.verdict import UNGRADED_REASONS

PYTHON = os.environ.get("TRANSFORMERS_PYTHON", "")
TINY_LLAVA = Path(__file__).parents[1] / "support" / "tiny_llava.py"
CASE = Case("trial-1", "d" * 64, 0, library_rubric("robot/place-in-goal"))

pytestmark = [
    pytest.mark.skipif(not PYTHON, reason="opt in: make test-transformers"),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Give the URL of a running server, and the name of its model."""
    folder = tmp_path_factory.mktemp("model")
    offline = os.environ | {"HF_HUB_OFFLINE": "1"}
    subprocess.run([PYTHON, str(TINY_LLAVA), str(folder)], check=True, env=offline)
    port = free_port()
    child = subprocess.Popen(
        [
            *(str(Path(PYTHON).with_name("transformers")), "serve", str(folder)),
            *("--host", "127.0.0.1", "--port", str(port), "--device", "cpu"),
        ],
        env=offline,
        stdout=sys.stderr,
    )
    try:
        assert wait_for_port(port, timeout_s=120)
        yield f"http://127.0.0.1:{port}/v1", str(folder)
    finally:
        child.terminate()
        child.wait()


def judge_at(url: str, model: str) -> Judge:
    provider = ProviderConfig(kind="openai", model=model, base_url=url, api_key="none")
    return Judge(JudgeConfig("j", provider, max_tokens=64), build_provider(provider), b"s")


def test_frames_reach_a_model_and_its_noise_is_no_verdict(
    server: tuple[str, str], trial: list[Evidence]
) -> None:
    url, model = server
    judge = judge_at(url, model)
    judged = judge.judge_frames(CASE, instruction="Place the cube.", frames=trial)
    judge.provider.close()
    assert judged.decision.outcome == "ungraded"
    assert judged.decision.reason in UNGRADED_REASONS
    assert judged.receipt["reply"] is not None
    # A repair as well, since the random model never comes to an end.
    assert [vote["outcome"]["reason"] for vote in judged.receipt["votes"]] == ["reply_truncated"]
    assert judged.receipt["usage"]["input_tokens"] > 0
    assert list(changes(read_receipt(judged.receipt))) == []


def test_a_model_that_the_server_does_not_have_is_rejected_for_good(
    server: tuple[str, str], trial: list[Evidence]
) -> None:
    url, _ = server
    judge = judge_at(url, "no/such-model")
    judged = judge.judge_frames(CASE, instruction="Place the cube.", frames=trial)
    judge.provider.close()
    assert (judged.decision.outcome, judged.decision.reason) == ("ungraded", "provider_rejected")
