"""`autograder regrade`: have trials of a run judged again."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from grader_service.cli.output import err, out, print_json
from grader_service.cli.submit import UrlOption, watching
from grader_service.client.http import DEFAULT_URL, Client
from grader_service.client.types import Grading
from grader_service.errors import AutograderError, UnavailableError


def regrade_command(
    run: Annotated[str, typer.Argument(help="The run whose trials are graded again.")],
    judge: Annotated[
        str | None, typer.Option(help="Another judge (default: the one that each trial had).")
    ] = None,
    rubric: Annotated[
        str | None, typer.Option(help="Another rubric: a library rubric's id, or free text.")
    ] = None,
    only: Annotated[
        Literal["ungraded", "abstained", "all"],
        typer.Option(help="Trials that are ungraded or abstained now, or all of them."),
    ] = "ungraded",
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Ask the judge even where it has answered the same before."),
    ] = False,
    url: UrlOption = DEFAULT_URL,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Queue one more round of grading for trials of a run. Every earlier verdict stays.

    The new verdict counts once it is there; an ungraded one displaces none. A judge that has
    answered the same question before is not asked again without --fresh.

    Example: autograder regrade first --only abstained --judge careful

    Exit codes: 0 done, 1 some trials were refused, 2 all were or there is no such run, 3 the
    service can't be reached.
    """
    with Client(url) as client:
        client.run(run)
        gradings: list[Grading] = []
        errors: list[tuple[str, AutograderError]] = []
        unfinished = 0
        for trial in list(client.trials(run=run)):
            if trial["state"] in ("queued", "running"):
                unfinished += 1
            elif only in ("all", trial["outcome"]):
                try:
                    queued = client.regrade(trial["id"], rubric=rubric, judge=judge, fresh=fresh)
                    gradings.append(queued)
                except UnavailableError:
                    raise
                except AutograderError as error:
                    errors.append((trial["id"], error))
    if errors and not gradings:
        raise errors[0][1]
    if as_json:
        print_json(
            {
                "run": run,
                "gradings": gradings,
                "unfinished": unfinished,
                "errors": [{"trial": id_, "error": str(refused)} for id_, refused in errors],
            }
        )
    else:
        for id_, refused in errors:
            err.print(f"error: {id_}: {refused}", markup=False)
        out.print(f"trials of run {run} that are graded again: {len(gradings)}", markup=False)
        if unfinished:
            out.print(f"left alone, since they are being graded: {unfinished}", markup=False)
        if gradings:
            out.print(f"see: {watching(run, url)}", markup=False)
    raise typer.Exit(1 if errors else 0)
