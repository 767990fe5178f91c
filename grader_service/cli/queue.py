"""`autograder queue`: what waits, runs and died; retry it or cancel it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from grader_service.cli.output import out, print_json
from grader_service.cli.score_tables import plain_table
from grader_service.cli.submit import UrlOption
from grader_service.client.http import DEFAULT_URL, Client
from grader_service.errors import UsageError

queue_app = typer.Typer(add_completion=False, rich_markup_mode=None)

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
_NEXT: Final = "next: `autograder queue retry` queues what died once more"


@queue_app.callback(invoke_without_command=True)
def show(ctx: typer.Context, url: UrlOption = DEFAULT_URL, as_json: JsonOption = False) -> None:
    """Show the queue, judge by judge, and the workers.

    due: could be graded now. waiting: for a later time, after a fault or a provider's limit.
    dead: ended without a verdict by our own or the provider's fault.

    Example: autograder queue

    Exit codes: 0 done, 3 the service can't be reached.
    """
    if ctx.invoked_subcommand is not None:
        return
    with Client(url) as client:
        queue = client.queue()
    if as_json:
        print_json(queue)
        return
    _print_judges(queue)
    _print_workers(queue)
    if any(judge["dead"]["n"] for judge in queue["judges"]):
        out.print(_NEXT, markup=False)


@queue_app.command("retry")
def retry_command(
    run: Annotated[str | None, typer.Option(help="Only trials of this run.")] = None,
    reason: Annotated[
        list[str] | None,
        typer.Option(
            help="Trials that ended by this reason code, or `cancelled`; may be given again. "
            "Default: worker_lost, provider_unavailable, timeout, internal."
        ),
    ] = None,
    url: UrlOption = DEFAULT_URL,
    as_json: JsonOption = False,
) -> None:
    """Queue trials that ended without a verdict once more. What is stored of them stays.

    Example: autograder queue retry --run first --reason provider_auth

    Exit codes: 0 done, 2 wrong use or no such run, 3 the service can't be reached.
    """
    with Client(url) as client:
        retried = client.retry(run=run, reasons=reason or ())
    if as_json:
        print_json({"retried": retried})
    else:
        out.print(f"{retried} trials are queued again", markup=False)


@queue_app.command("cancel")
def cancel_command(
    trials: Annotated[
        list[str] | None, typer.Argument(metavar="TRIAL", help="Ids of trials.")
    ] = None,
    run: Annotated[str | None, typer.Option(help="All trials of this run.")] = None,
    url: UrlOption = DEFAULT_URL,
    as_json: JsonOption = False,
) -> None:
    """End what is queued or running without a verdict. An answer under way is dropped.

    Cancelled trials are in none of a run's accounts; `queue retry --reason cancelled` queues them
    again.

    Example: autograder queue cancel --run first

    Exit codes: 0 done, 2 wrong use or no such run or trial, 3 the service can't be reached.
    """
    if (run is None) == (not trials):
        raise UsageError("cancel what?", fix="name trials, or a run with --run")
    with Client(url) as client:
        cancelled = client.cancel(run=run, trials=trials or ())
    if as_json:
        print_json({"cancelled": cancelled})
    else:
        out.print(f"{cancelled} gradings are cancelled", markup=False)


def _print_judges(queue: Mapping[str, Any]) -> None:
    if not queue["judges"]:
        out.print("nothing waits, runs or died", markup=False)
        return
    table = plain_table("judge", "depth", "due", "oldest", "in flight", "waiting", "dead")
    for judge in queue["judges"]:
        table.add_row(
            Text(_name(judge)),
            str(judge["depth"]),
            str(judge["due"]),
            _age(judge["oldest_s"]),
            str(judge["in_flight"]),
            str(judge["waiting"]["n"]),
            _dead(judge["dead"]),
        )
    out.print(table)
    for judge in queue["judges"]:
        error = judge["paused"] or judge["waiting"]["newest_error"]
        if error:
            out.print(f"{_name(judge)} waits: {error.splitlines()[0]}", markup=False)


def _print_workers(queue: Mapping[str, Any]) -> None:
    if not queue["workers"]:
        out.print("no worker was seen in the last hour", markup=False)
        return
    table = plain_table("worker", "seen", "in flight", "trouble")
    for worker in queue["workers"]:
        trouble = worker["trouble"] or ("takes no trials" if worker["stuck"] else "")
        seen = f"{_age(worker['age_s'])} ago"
        table.add_row(Text(worker["worker"]), seen, str(worker["in_flight"]), Text(trouble))
    out.print(table)


def _name(judge: Mapping[str, Any]) -> str:
    return judge["judge"] or "(the default)"


def _dead(dead: Mapping[str, Any]) -> str:
    reasons = ", ".join(f"{n} {reason}" for reason, n in sorted(dead["by_reason"].items()))
    return f"{dead['n']} ({reasons})" if reasons else "0"


def _age(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s"
