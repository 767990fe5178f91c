"""`autograder verify`: re-check exported files and receipts, offline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from grader_service.cli.exported import read_files, trial_folders
from grader_service.cli.output import err, out, print_json
from grader_service.judging.verify import NOT_RECOMPUTED, Difference, Verifier

_SHOWN = 90


def verify_command(
    paths: Annotated[list[str], typer.Argument(metavar="PATH", help="Exported runs or trials.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check that exported trials are as they were graded: nothing lost, nothing changed.

    Files against the manifest, records and frames against the receipts, receipts against each
    other, and each stored reply parsed and decided again. Not recomputed: the sha256 of a frame as
    it was sent, which depends on the Pillow that encoded it.

    Example: autograder verify exported

    Exit codes: 0 all as it should be, 1 differences, 2 nothing to verify.
    """
    verifier = Verifier()
    for folder in trial_folders(paths):
        files, unreadable = read_files(folder)
        verifier.add(str(folder), files)
        verifier.differences += [
            Difference(f"{folder}/{name}", "the file", "one that can be read", why)
            for name, why in unreadable.items()
        ]
    differences = [difference.plain() for difference in verifier.finish()]
    if as_json:
        print_json(
            {
                "trials": verifier.trials,
                "receipts": verifier.receipts,
                "differences": differences,
                "not_recomputed": NOT_RECOMPUTED,
            }
        )
    else:
        for difference in differences:
            out.print(_line(difference), markup=False)
        count = {0: "no difference", 1: "1 difference"}.get(
            len(differences), f"{len(differences)} differences"
        )
        out.print(f"{verifier.trials} trials, {verifier.receipts} receipts: {count}", markup=False)
        err.print(f"not recomputed: {NOT_RECOMPUTED}", markup=False)
    raise typer.Exit(1 if differences else 0)


def _line(difference: Mapping[str, Any]) -> str:
    expected, found = _short(difference["expected"]), _short(difference["found"])
    text = f"{difference['path']}: {difference['what']}: expected {expected}, found {found}"
    # What lies in a damaged file must not steer the terminal.
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _short(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
