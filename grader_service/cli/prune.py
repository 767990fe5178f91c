"""`autograder prune`: delete what is older than anybody wants to keep it."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Annotated, Final

import typer

from grader_service.bootstrap import build_service
from grader_service.cli.output import out, print_json
from grader_service.errors import UsageError
from grader_service.grading.prune import prune
from grader_service.settings import Settings

_AGE: Final = re.compile(r"(\d+)([smhdw])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def prune_command(
    older_than: Annotated[
        str, typer.Option(help="Age of what goes: a number and s, m, h, d or w, as in 30d.")
    ],
    run: Annotated[str | None, typer.Option(help="Only trials of this run.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be deleted, and delete nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Delete trials to which nothing has happened for so long, and blobs that none needs any more.

    Their verdicts and receipts go with them: export first what is to be kept. Trials that wait or
    are in work stay. Reads the service's stores directly: run it where they are, with the service's
    settings; the service may run.

    Example: autograder prune --older-than 30d --dry-run
    """
    pruned = prune(
        build_service(Settings.load()), older_than_s=_seconds(older_than), run=run, dry_run=dry_run
    )
    rows = pruned.rows
    if as_json:
        print_json(
            {"dry_run": dry_run, **asdict(rows), "blobs": pruned.blobs, "bytes": pruned.bytes}
        )
        return
    out.print(
        f"{'would delete' if dry_run else 'deleted'} {rows.trials} trials "
        f"({rows.gradings} gradings, {rows.verdicts} verdicts) "
        f"and {pruned.blobs} blobs ({pruned.bytes / 1e6:.1f} MB)",
        markup=False,
    )


def _seconds(age: str) -> float:
    match = _AGE.fullmatch(age)
    if match is None:
        raise UsageError(f"{age!r} is no age", fix="write for example 30d, 12h or 90m")
    return int(match[1]) * _SECONDS[match[2]]
