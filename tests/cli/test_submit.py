"""What `submit` says at its end."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from grader_service.cli.main import app
from grader_service.cli.submit import print_summary
from grader_service.plugins.stub_service import StubService
from grader_service.scoring.accounts import Accounts


def last_line(capsys: pytest.CaptureFixture[str], **changes: Any) -> str:
    summary = {
        "run": "r",
        "trials": 4,
        **Accounts(success=1, failure=3).to_dict(gradable_share=0.8),
        "usage": {"answers": 5, "input_tokens": 4000, "output_tokens": 900, "unknown": 0},
        "cost": {"usd": "0.0012", "unpriced": 0},
        "failure_modes": {},
    }
    print_summary(summary | changes)
    return capsys.readouterr().out.splitlines()[-1]


def test_one_line_tells_tokens_cost_and_failure_modes(capsys: pytest.CaptureFixture[str]) -> None:
    line = last_line(capsys, failure_modes={"dropped": 2, "missed_grasp": 1})
    assert line == "tokens 4000 in, 900 out; cost $0.0012; failure modes: dropped 2, missed_grasp 1"


def test_what_is_not_known_is_said_and_is_no_zero(capsys: pytest.CaptureFixture[str]) -> None:
    partly = last_line(capsys, cost={"usd": "0.0012", "unpriced": 1})
    assert partly == "tokens 4000 in, 900 out; cost $0.0012 (verdicts without a price: 1)"
    usage = {"answers": 5, "input_tokens": 0, "output_tokens": 0, "unknown": 5}
    nothing = last_line(capsys, usage=usage, cost={"usd": None, "unpriced": 5})
    assert nothing == (
        "tokens 0 in, 0 out (verdicts that do not tell: 5); "
        "cost unknown (verdicts without a price: 5)"
    )


def test_the_command_that_it_names_at_its_end_follows_the_run(
    autograder_service: StubService, sample_trials: Path
) -> None:
    run, url = "Ann's run", autograder_service.url
    arguments = ["submit", str(sample_trials), "--run", run, "--url", url]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    named = shlex.split(done.output.splitlines()[-1])
    assert named == ["see:", "autograder", "watch", run, "--url", url]
    followed = CliRunner().invoke(app, named[2:])
    assert followed.exit_code == 0, followed.output
    assert "24 of 24 ended" in followed.output
