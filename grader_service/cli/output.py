"""What commands print: results to stdout, everything about them to stderr."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Any

from rich.console import Console

from grader_service.errors import AutograderError

# Tables and progress; plain text where stdout is no terminal.
_console = partial(Console, highlight=False, soft_wrap=True)
# A pipe or a log has no width: wide enough that no table is folded.
out = _console(width=None if sys.stdout.isatty() else 200)
err = _console(stderr=True)


def print_json(value: Any) -> None:
    """Print one JSON value for machines."""
    json.dump(value, sys.stdout, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")
    sys.stdout.flush()


def print_error(error: AutograderError) -> None:
    """Print an error and what to do about it."""
    err.print(f"error: {error.message}", markup=False)
    if error.fix:
        err.print(f"fix: {error.fix}", markup=False)
