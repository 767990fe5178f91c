"""What commands print: results to stdout, everything about them to stderr."""

from __future__ import annotations

import io
import json
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.console import Console

from grader_service.errors import AutograderError

if TYPE_CHECKING:
    from rich.progress import Progress

# A character that the terminal's encoding lacks is shown escaped instead of ending the command.
for _stream in (sys.stdout, sys.stderr):
    if isinstance(_stream, io.TextIOWrapper):
        _stream.reconfigure(errors="backslashreplace")

# Tables and progress; plain text where stdout is no terminal.
_console = partial(Console, highlight=False, soft_wrap=True, emoji=False)
# A pipe or a log has no width: wide enough that no table is folded.
out = _console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 200)
err = _console(stderr=True)


def counting() -> Progress:
    """Return a progress bar that counts, on a terminal only."""
    # Importing it takes longer than many a command.
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )


def json_text(value: Any) -> str:
    """Return JSON text for machines, ASCII: no locale and no lone surrogate can spoil it."""
    return json.dumps(value, allow_nan=False)


def print_json(value: Any) -> None:
    """Print one JSON value for machines."""
    sys.stdout.write(json_text(value) + "\n")
    sys.stdout.flush()


def print_error(error: AutograderError) -> None:
    """Print an error and what to do about it."""
    err.print(f"error: {error.message}", markup=False)
    if error.fix:
        err.print(f"fix: {error.fix}", markup=False)
