"""`autograder score`: ScoreCards of what lies on disk, without service, model or key."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from grader_service.cli import score_tables
from grader_service.cli.output import err, json_text, out
from grader_service.cli.parallel import in_order
from grader_service.cli.score_files import Result, explain_one, failed, score_one
from grader_service.client.disk import Found, find_inputs, nothing_at
from grader_service.errors import AutograderError, UsageError
from grader_service.scoring import resolve_scorers
from grader_service.scoring.a320 import Aggregator, printable
from grader_service.scoring.a320 import ScoreCard as A320Card


def score_command(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH",
            help="A320 .jsonl files, saved records, folders of them, or patterns.",
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    output: Annotated[
        Path | None, typer.Option("--out", help="Write each card's canonical bytes here.")
    ] = None,
    scorer: Annotated[
        list[str] | None, typer.Option("--scorer", help="Robot scorers to run; may be repeated.")
    ] = None,
    aggregate: Annotated[
        bool, typer.Option("--aggregate", help="Only what they come to together, no cards.")
    ] = False,
    include_errors: Annotated[
        bool, typer.Option("--include-errors", help="Pool runs that a provider cut short as well.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say command by command why the score is what it is.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=0, help="Processes to use; 0 for one on each core.")] = 1,
) -> None:
    """Score records on disk: deterministic, offline, the same bytes on every machine.

    Example: autograder score runs/**/*.jsonl --out cards

    Exit codes: 0 done, 1 some inputs could not be scored, 2 nothing to score or unknown scorer.
    """
    if explain and (as_json or aggregate or output):
        raise UsageError("--explain prints text only", fix="leave out what else is to be printed")
    if aggregate and output:
        raise UsageError("--aggregate keeps no cards for --out", fix="leave out one of them")
    names = tuple(scorer or ())
    resolve_scorers(names)
    missing: list[str] = []
    found = list(find_inputs(paths, missing=missing.append))
    errors = [failed(Path(argument), nothing_at(argument)) for argument in missing]
    if not found:
        raise nothing_at(missing[0])
    if explain:
        _explain(found, names, errors)
        raise typer.Exit(1 if errors else 0)

    rows = Aggregator(include_errors=include_errors)
    kept: list[Result] = []
    target = None if output is None else _Target(output, [item.path for item in found])
    keep_bytes = output is not None or (as_json and not aggregate)
    work = partial(score_one, scorers=names, keep_bytes=keep_bytes)
    with closing(in_order(work, found, jobs or os.cpu_count() or 1)) as results:
        for result in _with_progress(results, len(found)):
            if result.error is not None:
                errors.append(result)
                continue
            if isinstance(result.card, A320Card):
                rows.add(result.card)
            if target is not None:
                target.write(result)
            if aggregate and (as_json or isinstance(result.card, A320Card)):
                continue
            kept.append(result if as_json else replace(result, data=None))
    if as_json:
        _print_json(kept, rows.rows(), errors)
    else:
        _print_errors(errors)
        score_tables.print_a320(kept)
        score_tables.print_aggregate(rows.rows())
        score_tables.print_robots(kept, cards=not aggregate)
        if output is not None:
            out.print(f"{len(kept)} cards in {output}", markup=False)
    raise typer.Exit(1 if errors else 0)


def _with_progress(results: Iterable[Result], total: int) -> Iterable[Result]:
    """Show on a terminal how many results there are."""
    if not err.is_terminal:
        return results
    # Only where it is seen: importing it takes longer than scoring many a file.
    from rich.progress import track

    return track(results, "scoring", total, console=err, transient=True)


def _print_json(
    results: Iterable[Result], rows: Sequence[Mapping[str, Any]], errors: Iterable[Result]
) -> None:
    """Print one JSON object, card by card: as Python objects, all at once would fill the memory.

    A card is read back from its canonical bytes: what JSON can't hold looks the same here and in
    the files of --out.
    """
    sys.stdout.write('{"cards": [')
    for number, result in enumerate(results):
        assert result.data is not None
        card = json.loads(result.data) | {"path": str(result.path)}
        sys.stdout.write((", " if number else "") + json_text(card))
    rest = {
        "aggregate": rows,
        "errors": [{"path": str(one.path), "error": one.error} for one in errors],
    }
    sys.stdout.write("], " + json_text(rest).removeprefix("{") + "\n")
    sys.stdout.flush()


def _print_errors(errors: Iterable[Result]) -> None:
    for result in errors:
        lines = map(printable, f"error: {result.error}".splitlines())
        err.print("\n".join(lines), markup=False)


def _explain(found: Sequence[Found], scorers: tuple[str, ...], errors: list[Result]) -> None:
    for item in found:
        try:
            text = explain_one(item, scorers=scorers)
        except AutograderError as error:
            errors.append(failed(item.path, error))
        else:
            out.print(f"{printable(str(item.path))}\n{text}", markup=False)
    _print_errors(errors)


class _Target:
    """Where --out puts the cards: the inputs' own tree, below their common folder."""

    def __init__(self, folder: Path, inputs: Sequence[Path]) -> None:
        self._folder = folder
        self._root = Path(os.path.commonpath([path.resolve().parent for path in inputs]))

    def write(self, result: Result) -> None:
        assert result.data is not None
        relative = result.path.resolve().relative_to(self._root)
        name = relative.name.removesuffix(".jsonl") + ".scorecard.json"
        path = self._folder / relative.with_name(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(result.data)
