"""`autograder score`: ScoreCards of what lies on disk, without service, model or key."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer

from grader_service.cli import score_tables
from grader_service.cli.output import err, out, print_error, print_json
from grader_service.client.disk import Found, find_inputs, read_saved, read_trajectory
from grader_service.errors import AutograderError, InputError, UsageError
from grader_service.scoring import default_scorers, resolve_scorers, robot_card
from grader_service.scoring.a320 import Aggregator, explain, score_trajectory
from grader_service.scoring.a320 import ScoreCard as A320Card


class Card(Protocol):
    """A ScoreCard of either kind."""

    def to_dict(self) -> dict[str, Any]: ...

    def canonical(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Result:
    """One input's card, or what was wrong with it."""

    path: Path
    card: Card | None = None
    error: str | None = None


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
        bool, typer.Option("--aggregate", help="Only the rows per scenario and model.")
    ] = False,
    include_errors: Annotated[
        bool, typer.Option("--include-errors", help="Pool runs that a provider cut short as well.")
    ] = False,
    explain_: Annotated[
        bool, typer.Option("--explain", help="Say command by command why the score is what it is.")
    ] = False,
    jobs: Annotated[int, typer.Option(help="Processes to use; 0 for one on each core.")] = 1,
) -> None:
    """Score records on disk: deterministic, offline, the same bytes on every machine.

    Example: autograder score runs/**/*.jsonl --out cards

    Exit codes: 0 done, 1 some inputs could not be scored, 2 nothing to score or unknown scorer.
    """
    if aggregate and (output or explain_):
        raise UsageError(
            "--aggregate keeps no cards, so there is nothing for --out or --explain",
            fix="leave out one of them",
        )
    names = tuple(scorer or ())
    resolve_scorers(names)
    found = list(find_inputs(paths))
    if explain_:
        raise typer.Exit(_explain(found, names))
    rows = Aggregator(include_errors=include_errors)
    shown: list[Result] = []
    errors: list[Result] = []
    target = None if output is None else _Target(output, [item.path for item in found])
    for result in _results(found, names, jobs, compact=aggregate):
        if result.card is None:
            errors.append(result)
            continue
        if isinstance(result.card, A320Card):
            rows.add(result.card)
        if target is not None:
            target.write(result)
        if not aggregate:
            shown.append(result)
    if as_json:
        print_json(
            {
                "cards": [_as_json(result) for result in shown],
                "aggregate": rows.rows(),
                "errors": [{"path": str(bad.path), "error": bad.error} for bad in errors],
            }
        )
    else:
        for bad in errors:
            err.print(f"error: {bad.error}", markup=False)
        score_tables.print_cards([(str(item.path), item.card) for item in shown])
        score_tables.print_aggregate(rows.rows())
        if output is not None:
            out.print(f"{len(shown)} cards in {output}", markup=False)
    raise typer.Exit(1 if errors else 0)


def _as_json(result: Result) -> dict[str, Any]:
    assert result.card is not None
    # Through the canonical form: what JSON can't hold looks the same here and in --out.
    import json

    card: dict[str, Any] = json.loads(result.card.canonical())
    return card | {"path": str(result.path)}


def _results(
    found: Sequence[Found], scorers: tuple[str, ...], jobs: int, *, compact: bool
) -> Iterator[Result]:
    """Return a result for each input, in order; with several jobs from as many processes."""
    work = partial(score_one, scorers=scorers, compact=compact)
    count = min(jobs or os.cpu_count() or 1, len(found))
    if count <= 1:
        yield from map(work, found)
        return
    with multiprocessing.get_context("spawn").Pool(count) as pool:
        yield from pool.imap(work, found, chunksize=32)


def score_one(found: Found, *, scorers: tuple[str, ...], compact: bool = False) -> Result:
    """Score one input. `compact` drops what an aggregate does not need."""
    try:
        card = _card(found, scorers)
    except AutograderError as error:
        message = error.message if str(found.path) in error.message else f"{found.path}: {error}"
        return Result(found.path, error=message)
    if compact and isinstance(card, A320Card):
        card = dataclasses.replace(card, commands=(), evidence=None)
    return Result(found.path, card=card)


def _card(found: Found, scorers: tuple[str, ...]) -> Card:
    if found.kind == "a320":
        return score_trajectory(read_trajectory(found.path))
    if found.kind == "trials":
        raise InputError(
            f"{found.path} holds trials that have no saved record yet",
            fix="submit it (autograder submit), then export the run (autograder export)",
        )
    folder = read_saved(found.path)
    chosen = resolve_scorers(scorers) if scorers else default_scorers()
    return robot_card(folder.saved, folder.effective, chosen)


def _explain(found: Sequence[Found], scorers: tuple[str, ...]) -> int:
    failed = False
    for item in found:
        try:
            if item.kind == "a320":
                text = explain(read_trajectory(item.path))
            else:
                text = score_tables.explain_robot(_card(item, scorers).to_dict())
        except AutograderError as error:
            failed = True
            print_error(error)
            continue
        out.print(f"{item.path}\n{text}", markup=False)
    return 1 if failed else 0


class _Target:
    """Where --out puts the cards: the inputs' own tree, below their common folder."""

    def __init__(self, folder: Path, inputs: Sequence[Path]) -> None:
        self._folder = folder
        parents = [str(path.resolve().parent) for path in inputs]
        self._root = Path(os.path.commonpath(parents)) if parents else Path.cwd()

    def write(self, result: Result) -> None:
        assert result.card is not None
        relative = result.path.resolve().relative_to(self._root)
        name = relative.name.removesuffix(".jsonl") + ".scorecard.json"
        path = self._folder / relative.with_name(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(result.card.canonical())
