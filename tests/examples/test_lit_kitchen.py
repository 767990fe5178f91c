"""The kitchen with the lights on: a judge sees something in its pictures."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from grader_service.plugins.stub_service import StubService

ROOT = Path(__file__).parents[2]


def test_a_benchmark_runs_in_it_and_its_frames_show_the_grippers(
    autograder_service: StubService, tmp_path: Path
) -> None:
    options = ["--policy", "kitchen_random", "--embodiment", "lit_kitchen", "--log-dir", "none"]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "examples.lit_kitchen", "run"),
            *("--task", "kitchenbench/stack", *options, "--grader", "autograder"),
        ],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    trials = autograder_service.wait_for(25)
    for trial in trials:
        for data in trial.frames.values():
            (tmp_path / "frame.npy").write_bytes(data)
            picture = np.load(tmp_path / "frame.npy")
            assert picture.shape == (128, 128, 3)
            assert picture.std() > 10
