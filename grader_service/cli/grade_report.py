"""What `autograder grade` says at its end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import typer

from grader_service.cli.output import err, out, print_error, print_json
from grader_service.cli.score_tables import plain_table
from grader_service.errors import AutograderError, InputError
from grader_service.graders.trial import TrialGrader
from grader_service.records.verdict import Verdict
from grader_service.scoring.a320 import printable

_WORDS: Final = ("outcome", "verdict", "reason", "source")


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of one trial; `verdict` is the one that counts now."""

    path: Path
    trial: str
    did: Literal["graded", "adopted", "kept", "skipped", "left_out"]
    verdict: Verdict | None = None


@dataclass
class Report:
    trials: list[Ended]
    errors: list[tuple[str, AutograderError]]
    stopped: str | None = None

    def those(self, did: str) -> list[Ended]:
        return [one for one in self.trials if one.did == did]


def finish(report: Report, grader: TrialGrader, *, as_json: bool) -> None:
    """Print the report, and exit as it demands."""
    if as_json:
        print_json(
            {
                "grader": grader.name,
                "trials": [_as_json(one) for one in report.trials],
                "errors": [{"path": where, "error": str(error)} for where, error in report.errors],
                "stopped": report.stopped,
            }
        )
    else:
        for where, error in report.errors:
            print_error(_located(where, error))
        _print(report)
    if report.stopped is not None:
        err.print(
            f"{report.stopped}; what was graded is kept. Give the same command again to go on.",
            markup=False,
        )
    left_out = report.those("left_out")
    if left_out and len(left_out) == len(report.trials):
        raise InputError(
            f"the grader {grader.name!r} grades none of these trials",
            fix="vlm grades robot trials, llm_judge A320 runs, operator both",
        )
    if report.errors and not report.trials:
        raise typer.Exit(2)
    ungraded = any(_outcome(one) == "ungraded" for one in report.trials)
    raise typer.Exit(1 if report.errors or report.stopped or ungraded else 0)


def _located(where: str, error: AutograderError) -> AutograderError:
    return AutograderError(f"{where}: {error.message}", fix=error.fix)


def _outcome(one: Ended) -> str | None:
    return None if one.verdict is None else one.verdict.outcome


def _as_json(one: Ended) -> dict[str, Any]:
    verdict = one.verdict
    return {
        "path": str(one.path),
        "trial": one.trial,
        "did": one.did,
        **(dict.fromkeys(_WORDS) if verdict is None else verdict.judgement()),
        "note": None if verdict is None else verdict.note,
    }


def _print(report: Report) -> None:
    now = report.those("graded") + report.those("adopted")
    # Those without a verdict at the end, by reason.
    now.sort(
        key=lambda one: (_outcome(one) == "ungraded", (one.verdict and one.verdict.reason) or "")
    )
    if now:
        table = plain_table("trial", "verdict", "by", "why", "folder")
        for one in now:
            assert one.verdict is not None
            said = one.verdict.verdict or one.verdict.outcome
            why = ": ".join(text for text in (one.verdict.reason, one.verdict.note) if text)
            row = (one.trial, said, one.verdict.source, _short(why), str(one.path))
            table.add_row(*map(_cell, row))
        out.print(table)
    accounts: dict[str, Counter[str]] = {"graded": Counter(), "abstained": Counter()}
    accounts["ungraded"] = Counter()
    for one in now:
        assert one.verdict is not None
        accounts[one.verdict.outcome][str(one.verdict.reason or one.verdict.verdict)] += 1
    parts = [f"{name} {sum(by.values())}{_detail(by)}" for name, by in accounts.items()]
    for did, text in (("kept", "had a verdict"), ("skipped", "skipped"), ("left_out", "left out")):
        if report.those(did):
            parts.append(f"{text} {len(report.those(did))}")
    out.print(f"{len(report.trials)} trials: {', '.join(parts)}", markup=False)
    if any(one.verdict is not None and one.verdict.source == "stub" for one in now):
        out.print("STUB: a scripted model gave these verdicts; they are no judgement", markup=False)


def _detail(counts: Counter[str]) -> str:
    listed = ", ".join(f"{n} {name}" for name, n in sorted(counts.items()))
    return f" ({listed})" if listed else ""


def _short(text: str, width: int = 40) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def _cell(text: str) -> str:
    return printable(text).replace("[", r"\[")
