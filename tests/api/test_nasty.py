"""The hostile files of tests/data/nasty over the whole way: submitted, stored, graded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from grader_service.providers.stub import StubModel

ROOT = Path(__file__).parents[2]
NASTY = ROOT / "tests" / "data" / "nasty"
EXPECTED: dict[str, Any] = json.loads((NASTY / "nasty.json").read_text("utf-8"))["files"]
ACCEPTED = [name for name, entry in EXPECTED.items() if entry["expect"] == "accept"]
REJECTED = [name for name, entry in EXPECTED.items() if entry["expect"] == "reject"]
# These look right in their headers: only decoding them tells.
REJECTED_BY_DECODING = {
    "truncated.jpg",
    "truncated.png",
    "bad_crc.png",
    "float255.npy",
    "float_pm1.npy",
    "float_nan.npy",
    "float64_depth.npy",
}

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="limits and measures a process"),
    pytest.mark.xdist_group("nasty"),
]


@dataclass(frozen=True)
class Outcomes:
    """What became of each file, the sha256 of each image that the judge got, and peaks in MB."""

    files: dict[str, dict[str, Any]]
    judged: set[str]
    peaks: list[float]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcomes]:
    home = tmp_path_factory.mktemp("nasty")
    with StubModel() as stub:
        done = subprocess.run(
            [
                sys.executable,
                Path(__file__).with_name("nasty_child.py"),
                home,
                stub.url,
                *(NASTY / name for name in EXPECTED),
            ],
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "PYTHONWARNINGS": "error",
                "OPENBLAS_NUM_THREADS": "1",
            },
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        *files, last = map(json.loads, done.stdout.splitlines())
        judged = {image["sha256"] for request in stub.log for image in request["images"]}
        yield Outcomes({found["name"]: found for found in files}, judged, last["peaks"])


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_good_frame_reaches_the_judge(outcomes: Outcomes, name: str) -> None:
    found = outcomes.files[name]
    assert found["status"] == 202
    assert found["trial"]["outcome"] in ("graded", "abstained")
    [frame] = found["receipt"]["frames"]
    assert frame["sha256_sent"] in outcomes.judged


@pytest.mark.parametrize("name", sorted(set(REJECTED) - REJECTED_BY_DECODING))
def test_a_bad_frame_is_refused_at_submission_with_what_it_is_and_what_to_do(
    outcomes: Outcomes, name: str
) -> None:
    found = outcomes.files[name]
    assert found["status"] == 422
    assert found["answer"]["type"].endswith("/invalid-frame")
    assert "last frame of camera 'front'" in found["answer"]["detail"]
    assert found["answer"]["fix"]


@pytest.mark.parametrize("name", sorted(REJECTED_BY_DECODING))
def test_a_frame_that_does_not_decode_is_ungraded_without_asking_a_judge(
    outcomes: Outcomes, name: str
) -> None:
    found = outcomes.files[name]
    assert found["status"] == 202
    assert (found["trial"]["outcome"], found["trial"]["verdict"]) == ("ungraded", None)
    assert found["trial"]["reason"] == "evidence_unreadable"
    assert "last frame of camera 'front'" in found["trial"]["note"]
    assert found["receipt"]["reply"] is None


def test_nothing_but_the_good_frames_was_sent_to_the_judge(outcomes: Outcomes) -> None:
    good = {outcomes.files[name]["receipt"]["frames"][0]["sha256_sent"] for name in ACCEPTED}
    assert outcomes.judged == good


def test_submitting_and_grading_them_takes_little_memory(outcomes: Outcomes) -> None:
    before, submitted, graded = outcomes.peaks
    # Decoded, the bombs would take 130 to 1,900 MB.
    assert submitted - before < 16
    assert graded - submitted < 64
