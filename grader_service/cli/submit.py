"""`autograder submit`: hand trials on disk to a running service."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from grader_service.cli.output import counting, err, out, print_error, print_json
from grader_service.cli.score_tables import plain_table
from grader_service.client.disk import find_inputs
from grader_service.client.http import DEFAULT_URL, Client
from grader_service.client.submissions import Choices, Draft, drafts, try_build
from grader_service.errors import AutograderError, InputError, UnavailableError

UrlOption = Annotated[
    str, typer.Option("--url", envvar="AUTOGRADER_URL", help="Where the service listens.")
]


def submit_command(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH",
            help="Folders with a trials.json or trial.json, saved records, A320 .jsonl files, "
            "logs of inspect-robots, or patterns.",
        ),
    ],
    run: Annotated[str, typer.Option(help="The run that the trials belong to.")] = "default",
    rubric: Annotated[
        str | None,
        typer.Option(help="A library rubric's id, or free text. A trial's own rubric beats it."),
    ] = None,
    judge: Annotated[
        str | None, typer.Option(help="The judge to ask (default: the service's).")
    ] = None,
    priority: Annotated[
        int, typer.Option(min=-10, max=10, help="Higher goes first among what waits for a judge.")
    ] = 0,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Ask the judge even where it has answered the same before."),
    ] = False,
    frames_dir: Annotated[
        Path | None,
        typer.Option(help="Where the frames of logs are, when not where they were stored."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the verdicts and print them.")
    ] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait at most.")] = 3600.0,
    url: UrlOption = DEFAULT_URL,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Submit trials to a running service. Submitting the same again does nothing.

    Example: autograder submit examples/trials --run first --wait

    Exit codes: 0 done, 1 some trials were refused or ended ungraded, 2 nothing usable,
    3 the service can't be reached.
    """
    choices = Choices(
        run=run,
        rubric=rubric,
        judge=judge,
        fresh=fresh,
        priority=priority,
        frames_dir=frames_dir,
    )
    todo = [draft for found in find_inputs(paths) for draft in drafts(found, choices)]
    if not todo:
        raise InputError("there are no trials in what you named", fix="name at least one trial")
    with Client(url) as client:
        ids, errors = _send(client, todo)
        if not ids and errors:
            for _, error in errors:
                print_error(error)
            raise typer.Exit(2)
        if wait:
            _wait(client, run, len(ids), timeout)
        trials = [trial for trial in client.trials(run=run) if trial["id"] in ids]
        summary = client.run(run)
    if as_json:
        print_json(
            {
                "trials": trials,
                "summary": summary,
                "errors": [{"path": name, "error": str(error)} for name, error in errors],
            }
        )
    else:
        for _, error in errors:
            print_error(error)
        _report(trials, summary, url=url, wait=wait)
    ungraded = any(trial["outcome"] == "ungraded" for trial in trials)
    unfinished = wait and any(trial["state"] != "done" for trial in trials)
    raise typer.Exit(1 if errors or ungraded or unfinished else 0)


def _send(
    client: Client, todo: Sequence[Draft]
) -> tuple[set[str], list[tuple[str, AutograderError]]]:
    ids: set[str] = set()
    errors: list[tuple[str, AutograderError]] = []
    with counting() as progress:
        bar = progress.add_task("submitting", total=len(todo))
        for draft in todo:
            built = try_build(draft)
            try:
                if isinstance(built, AutograderError):
                    raise built
                ids.add(client.submit(built.trial, built.parts)["id"])
            except UnavailableError:
                raise
            except AutograderError as error:
                where = f"{draft.path} ({draft.name})"
                errors.append((where, type(error)(f"{where}: {error.message}", fix=error.fix)))
            progress.advance(bar)
    return ids, errors


def _wait(client: Client, run: str, submitted: int, timeout: float) -> None:
    give_up = time.monotonic() + timeout
    with counting() as progress:
        bar = progress.add_task("grading", total=submitted)
        while True:
            summary = client.run(run)
            pending = summary["pending"]["n"]
            progress.update(bar, completed=max(0, submitted - pending))
            if pending == 0:
                return
            if summary["waiting_for"]:
                err.print(f"{pending} trials wait: {summary['waiting_for']}", markup=False)
                return
            if time.monotonic() > give_up:
                err.print("gave up waiting; the trials are graded all the same", markup=False)
                return
            time.sleep(0.3)


def _report(
    trials: Sequence[Mapping[str, Any]], summary: Mapping[str, Any], *, url: str, wait: bool
) -> None:
    if wait:
        out.print(verdict_table(trials))
    print_summary(summary)
    if not wait:
        out.print(f"see: {watching(summary['run'], url)}", markup=False)


def watching(run: str, url: str) -> str:
    """Return the command that follows a run."""
    at = "" if url == DEFAULT_URL else f" --url {shlex.quote(url)}"
    return f"autograder watch {shlex.quote(run)}{at}"


def verdict_table(
    trials: Sequence[Mapping[str, Any]], truths: Mapping[str, bool] | None = None
) -> Table:
    """Return a table of trials and their verdicts, beside the known truths if there are any."""
    columns = ["trial", "instruction", "verdict", *(["truth"] if truths is not None else [])]
    table = plain_table(*columns, "reason")
    for trial in trials:
        verdict = trial["verdict"] or trial["outcome"] or trial["state"]
        style = {"success": "green", "failure": "red"}.get(verdict, "yellow")
        reason = ": ".join(text for text in (trial["reason"], trial["note"]) if text)
        row = [trial["scene_id"], _short(trial["instruction"], 56), f"[{style}]{verdict}[/]"]
        if truths is not None:
            truth = truths.get(trial["scene_id"])
            row.append("" if truth is None else "success" if truth else "failure")
        table.add_row(*row, _short(reason or trial["waiting_for"], 100))
    return table


def _short(text: str | None, width: int) -> str:
    line = " ".join((text or "").split()).replace("[", r"\[")
    return line if len(line) <= width else line[: width - 1] + "…"


def print_summary(summary: Mapping[str, Any]) -> None:
    """Print a run's three accounts, and its rate with the interval or why there is none."""
    graded, abstained = summary["graded"], summary["abstained"]
    out.print(
        f"run {summary['run']}: {summary['trials']} trials: "
        f"graded {graded['n']} ({graded['success']} success, {graded['failure']} failure), "
        f"abstained {abstained['n']}{_reasons(abstained)}, "
        f"ungraded {summary['ungraded']['n']}{_reasons(summary['ungraded'])}, "
        f"pending {summary['pending']['n']}",
        markup=False,
    )
    bounds = summary["bounds"] or {}
    if summary["success_rate"] is not None:
        interval = summary["interval"]
        out.print(
            f"success rate {summary['success_rate']:.3f} of {graded['n']} graded, "
            f"95 % Wilson interval [{interval['low']:.3f}, {interval['high']:.3f}]",
            markup=False,
        )
    else:
        out.print(f"no success rate: {summary['no_rate_because']}", markup=False)
    if bounds and bounds["all_missing_failed"] != bounds["all_missing_succeeded"]:
        out.print(
            f"bounds over all {summary['trials']}: {bounds['all_missing_failed']:.3f} if every "
            "trial without a verdict failed, "
            f"{bounds['all_missing_succeeded']:.3f} if all succeeded",
            markup=False,
        )
    out.print(_expense(summary), markup=False)


def _expense(summary: Mapping[str, Any]) -> str:
    usage, cost = summary["usage"], summary["cost"]
    line = f"tokens {usage['input_tokens']} in, {usage['output_tokens']} out"
    if usage["unknown"]:
        line += f" (verdicts that do not tell: {usage['unknown']})"
    line += "; cost unknown" if cost["usd"] is None else f"; cost ${cost['usd']}"
    if cost["unpriced"]:
        line += f" (verdicts without a price: {cost['unpriced']})"
    modes = [f"{mode} {n}" for mode, n in summary["failure_modes"].items()]
    return line + (f"; failure modes: {', '.join(modes)}" if modes else "")


def _reasons(account: Mapping[str, Any]) -> str:
    parts = [f"{n} {reason}" for reason, n in account["by_reason"].items()]
    return f" ({', '.join(parts)})" if parts else ""


def load_truths(folder: Path) -> dict[str, bool]:
    """Return what a trials.json says of success, by trial."""
    from grader_service.client.submissions import entries

    return {
        str(entry["id"]): entry["success"]
        for entry in entries(folder)
        if isinstance(entry.get("success"), bool)
    }
