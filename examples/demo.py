"""`make demo`: the whole way of a trial, on this machine, without key, Docker or Redis.

Starts a judge that looks at pixels and a scripted LLM judge, each in its own process, and the
embedded service; submits 24 robot trials and three cockpit runs; prints what came of them; stops
everything. Records and ScoreCards stay in .autograder/demo.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rich.panel import Panel

from grader_service.cli.output import err, out
from grader_service.cli.processes import free_port
from grader_service.cli.score_tables import number
from grader_service.cli.submit import load_truths, print_summary, verdict_table
from grader_service.client.disk import Found
from grader_service.client.http import Client
from grader_service.client.submissions import Choices, drafts
from grader_service.errors import UnavailableError

EXAMPLES = Path(__file__).parent
HOME = Path(".autograder") / "demo"
AUTOGRADER = [sys.executable, "-m", "grader_service.cli.main"]


def main() -> int:
    """Run the demo and return an exit code."""
    begun = time.monotonic()
    shutil.rmtree(HOME, ignore_errors=True)
    with ExitStack() as stack:
        say("starting the judges and the service")
        judges = {
            "pixels": stack.enter_context(pixel_judge()),
            "scripted": stack.enter_context(scripted_judge()),
        }
        client = stack.enter_context(service(judges))
        robots = stack.enter_context(Client(client))
        say("submitting 24 robot trials and 3 cockpit runs")
        submitted = time.monotonic()
        submit(robots, Found("trials", EXAMPLES / "trials"), Choices("robots", judge="pixels"))
        for path in sorted((EXAMPLES / "a320").glob("*.jsonl")):
            submit(robots, Found("a320", path), Choices("cockpit", judge="scripted"))
        graded = wait(robots, ["robots", "cockpit"])
        seconds = time.monotonic() - submitted
        say(f"submitted and graded in {seconds:.1f} s: {graded / seconds:.1f} trials a second")
        export(["robots", "cockpit"])
        report(robots)
    say(f"everything is stopped again, after {time.monotonic() - begun:.1f} s")
    return 0


def say(text: str) -> None:
    err.print(f"[bold]demo:[/] {text}")


@contextmanager
def pixel_judge() -> Iterator[str]:
    """Run the judge that looks at pixels; give its URL."""
    with process([sys.executable, "-m", "examples.pixel_judge", "--port", "0"]) as judge:
        yield first_url(judge)


@contextmanager
def scripted_judge() -> Iterator[str]:
    """Run a stub model whose answers are scripted; give its URL."""
    script = str(EXAMPLES / "a320" / "judge_script.json")
    with process([*AUTOGRADER, "stub-model", "--port", "0", "--script", script]) as judge:
        yield first_url(judge)


@contextmanager
def service(judges: dict[str, str]) -> Iterator[str]:
    """Run `autograder up` with both judges; give its URL once it takes trials."""
    port = free_port()
    os.environ["AUTOGRADER_HOME"] = str(HOME)
    os.environ["AUTOGRADER_JUDGES"] = json.dumps(
        {
            "pixels": {"provider": "openai", "model": "pixels", "base_url": judges["pixels"]},
            "scripted": {
                "provider": "openai",
                "model": "scripted",
                "base_url": judges["scripted"],
                "stub": True,
            },
        }
    )
    url = f"http://127.0.0.1:{port}"
    with process([*AUTOGRADER, "up", "--port", str(port)]), Client(url) as client:
        give_up = time.monotonic() + 60
        while time.monotonic() < give_up:
            try:
                if client.readiness()["workers"]:
                    yield url
                    return
            except UnavailableError:
                pass
            time.sleep(0.1)
        raise SystemExit("the service did not start; see the lines above")


@contextmanager
def process(arguments: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """Run a child until the block ends."""
    child = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    try:
        yield child
    finally:
        child.terminate()
        child.wait(60)


def first_url(child: subprocess.Popen[str]) -> str:
    """Return the URL in the first line that a child prints."""
    assert child.stdout is not None
    line = child.stdout.readline()
    for word in line.split():
        if word.startswith("http://"):
            return word
    raise SystemExit(f"a judge did not start: {line!r}")


def submit(client: Client, found: Found, choices: Choices) -> None:
    for draft in drafts(found, choices):
        submission = draft.build()
        client.submit(submission.trial, submission.parts)


def wait(client: Client, runs: Sequence[str]) -> int:
    """Say how far the grading is until nothing is pending; return the number of trials."""
    shown = -1
    while True:
        summaries = [client.run(run) for run in runs]
        total = sum(int(summary["trials"]) for summary in summaries)
        done = total - sum(summary["pending"]["n"] for summary in summaries)
        if done != shown:
            say(f"graded {done} of {total}")
            shown = done
        if done == total:
            return total
        time.sleep(0.2)


def export(runs: Sequence[str]) -> None:
    for run in runs:
        folder = str(HOME / "records" / run)
        subprocess.run(
            [*AUTOGRADER, "export", run, "-o", folder], check=True, stdout=subprocess.DEVNULL
        )


def report(client: Client) -> None:
    """Print verdicts beside the simulator's truth, the summaries and the ScoreCards."""
    trials = list(client.trials(run="robots"))
    out.print(verdict_table(trials, load_truths(EXAMPLES / "trials")))
    print_summary(client.run("robots"))
    card = client.scorecard(trials[0]["id"])
    out.print(Panel(pretty(json.loads(card)), title="ScoreCard of a robot trial", expand=False))
    for trial in client.trials(run="cockpit"):
        a320 = json.loads(client.scorecard(trial["id"]))
        out.print(
            f"cockpit run {a320['run_id']}: scalar {a320['scalar']:.2f} = coverage "
            f"{number(a320['coverage'])}, order {number(a320['order'])}, "
            f"end state {number(a320['end_state'])}; "
            f"beside it the LLM judge: {a320['judgement']['verdict']}",
            markup=False,
        )
    print_summary(client.run("cockpit"))
    out.print(f"records, frames, verdicts and receipts: {HOME / 'records'}", markup=False)
    out.print("next, offline: .venv/bin/autograder score .autograder/demo/records", markup=False)
    out.print("next, live:    .venv/bin/autograder up --stub", markup=False)


def pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("[", r"\[")


if __name__ == "__main__":
    sys.exit(main())
