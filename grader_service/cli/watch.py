"""`autograder watch`: follow a run until its trials have ended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from grader_service.cli.output import counting, err, print_json
from grader_service.cli.submit import UrlOption, print_summary
from grader_service.client.http import DEFAULT_URL, Client
from grader_service.client.types import Progress as Event
from grader_service.client.types import RunEnded, RunSummary, SummaryChanged, TrialEnded

# For how long the service may be away, as while it is started anew.
_PATIENCE_S = 60.0


def watch_command(
    run: Annotated[str, typer.Argument(help="The run to follow.")],
    url: UrlOption = DEFAULT_URL,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each event as one line of JSON.")
    ] = False,
) -> None:
    """Follow a run until none of its trials is pending, then print its summary.

    Watching changes nothing: Ctrl-C ends it, and the trials are graded all the same.

    Example: autograder watch first

    Exit codes: 0 done, 1 some trials ended ungraded, 2 there is no such run, 3 the service can't
    be reached, 130 stopped with Ctrl-C.
    """
    with Client(url) as client:
        summary = client.run(run)
    try:
        with Client(url, retry_s=_PATIENCE_S) as client:
            if as_json:
                for event in client.progress(run):
                    print_json(_json(event))
                    summary = _newer(event, summary)
            else:
                summary = _show(client.progress(run, trials=False), summary)
    except KeyboardInterrupt:
        err.print("stopped watching; the trials are graded all the same", markup=False)
        raise typer.Exit(130) from None
    if not as_json:
        print_summary(summary)
    raise typer.Exit(1 if summary["ungraded"]["n"] else 0)


def _newer(event: Event, summary: RunSummary) -> RunSummary:
    return summary if isinstance(event, TrialEnded) else event.summary


def _json(event: Event) -> dict[str, Any]:
    match event:
        case TrialEnded(trial):
            return {"event": "trial", "trial": trial}
        case SummaryChanged(summary):
            return {"event": "summary", "summary": summary}
        case RunEnded(summary):
            return {"event": "end", "summary": summary}


def _show(events: Iterable[Event], summary: RunSummary) -> RunSummary:
    """Show a bar on a terminal and lines elsewhere; return the last summary."""
    with counting() as progress:
        bar = progress.add_task(_accounts(summary), total=summary["trials"])
        for event in events:
            summary = _newer(event, summary)
            if isinstance(event, SummaryChanged):
                ended = summary["trials"] - summary["pending"]["n"]
                text = _accounts(summary)
                progress.update(bar, description=text, total=summary["trials"], completed=ended)
                if not err.is_terminal:
                    err.print(f"{ended} of {summary['trials']} ended: {text}", markup=False)
    return summary


def _accounts(summary: RunSummary) -> str:
    graded = summary["graded"]
    text = (
        f"{graded['success']} success, {graded['failure']} failure, "
        f"{summary['abstained']['n']} abstained, {summary['ungraded']['n']} ungraded"
    )
    waits = summary["waiting_for"]
    return f"{text}; the rest waits: {waits}" if waits else text
