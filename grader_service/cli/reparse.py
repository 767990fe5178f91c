"""`autograder reparse`: what stored replies come to under the parser that is installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from grader_service.cli.exported import trial_folders
from grader_service.cli.output import err, out, print_json
from grader_service.cli.score_tables import plain_table
from grader_service.cli.submit import UrlOption
from grader_service.client.http import DEFAULT_URL, Client
from grader_service.errors import AutograderError, InputError, UsageError
from grader_service.judging.reply import PARSER_VERSION
from grader_service.judging.stored_receipt import changes, read_receipt
from grader_service.records.verdict_lines import VERDICTS_PATH, read_verdict_line


@dataclass(frozen=True, slots=True)
class Reparsed:
    """One receipt: what it came to when it was written, what it comes to now, what changed."""

    trial: str
    round: int
    parser: str
    old: Mapping[str, Any]
    new: Mapping[str, Any]
    changed: Sequence[str]


@dataclass
class _Report:
    receipts: list[Reparsed] = field(default_factory=list)
    errors: list[tuple[str, AutograderError]] = field(default_factory=list)


def reparse_command(
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="PATH", help="Exported runs or trials.")
    ] = None,
    run: Annotated[
        str | None, typer.Option(help="A run of a running service instead of exported ones.")
    ] = None,
    url: UrlOption = DEFAULT_URL,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Parse stored replies again and say what would come of them now. Nothing is changed.

    Asks no model. To have verdicts that follow another parser or prompt, use `regrade --fresh`.

    Example: autograder reparse exported

    Exit codes: 0 nothing differs, 1 something does or could not be parsed, 2 nothing to parse.
    """
    if bool(paths) == (run is not None):
        raise UsageError("nothing, or two things, to parse again", fix="give PATH or --run RUN")
    report = _Report()
    for where, receipt in _of_run(url, run) if run is not None else _of_folders(paths or []):
        if isinstance(receipt, AutograderError):
            report.errors.append((where, receipt))
            continue
        try:
            reparsed = reparse(receipt)
        except AutograderError as error:
            report.errors.append((where, error))
            continue
        if reparsed is not None:
            report.receipts.append(reparsed)
    if not report.receipts and not report.errors:
        raise InputError("there is no stored reply in what you named", fix="name a graded run")
    differ = [one for one in report.receipts if one.changed]
    if as_json:
        print_json(
            {
                "parser": PARSER_VERSION,
                "receipts": [_as_json(one) for one in report.receipts],
                "errors": [{"path": where, "error": str(error)} for where, error in report.errors],
            }
        )
    else:
        _print(report, len(differ))
    raise typer.Exit(1 if differ or report.errors else 0)


def reparse(value: Mapping[str, Any]) -> Reparsed | None:
    """Parse a receipt's replies again; None where it has none. Raises RecordError, RubricError."""
    receipt = read_receipt(value)
    if receipt.reply is None:
        return None
    changed = {change.what: change.now for change in changes(receipt)}
    old = receipt.outcome.model_dump()
    return Reparsed(
        trial=receipt.trial,
        round=receipt.round,
        parser=receipt.parser,
        old=old,
        new=changed.get("outcome", old),
        changed=list(changed),
    )


_Found = Iterator[tuple[str, Mapping[str, Any] | AutograderError]]


def _of_folders(paths: Sequence[str]) -> _Found:
    for folder in trial_folders(paths):
        for number, line in enumerate(_verdict_lines(folder), start=1):
            where = f"{folder / VERDICTS_PATH}:{number}"
            try:
                verdict = read_verdict_line(line, where)
            except AutograderError as error:
                yield where, error
                continue
            if verdict.receipt is not None:
                yield where, verdict.receipt


def _verdict_lines(folder: Path) -> list[bytes]:
    path = folder / VERDICTS_PATH
    try:
        return path.read_bytes().splitlines()
    except OSError as error:
        raise InputError(
            f"{path} can't be read: {error.strerror}", fix="export the run again"
        ) from error


def _of_run(url: str, run: str) -> _Found:
    with Client(url) as client:
        # Says that there is no such run, where there is none.
        client.run(run)
        for trial in client.trials(run=run):
            for verdict in client.verdicts(trial["id"]):
                if verdict["receipt"] is not None:
                    yield trial["id"], verdict["receipt"]


def _as_json(one: Reparsed) -> dict[str, Any]:
    return {
        "trial": one.trial,
        "round": one.round,
        "parser": one.parser,
        "old": dict(one.old),
        "new": dict(one.new),
        "changed": list(one.changed),
    }


def _print(report: _Report, differ: int) -> None:
    table = plain_table("trial", "round", "parser", "old", "new", "changed")
    for one in report.receipts:
        row = (one.trial, str(one.round), one.parser, _said(one.old), _said(one.new))
        table.add_row(*row, ", ".join(one.changed))
    out.print(table)
    for where, error in report.errors:
        err.print(f"error: {where}: {error.message}", markup=False)
    out.print(
        f"{len(report.receipts)} receipts parsed again with {PARSER_VERSION}: "
        + {0: "none differs", 1: "1 differs"}.get(differ, f"{differ} differ"),
        markup=False,
    )


def _said(words: Mapping[str, Any]) -> str:
    return str(words["verdict"]) if words["outcome"] == "graded" else str(words["reason"])
