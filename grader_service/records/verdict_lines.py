"""verdicts.jsonl: the verdicts of an exported trial, one on each line as canonical JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from grader_service.errors import RecordError
from grader_service.records.canonical import MAX_SAFE_INTEGER, canonical_bytes
from grader_service.records.strict_json import MAX_DEPTH, strict_loads
from grader_service.records.verdict import Verdict, read_verdict

VERDICTS_PATH: Final = "verdicts.jsonl"

# A model's reply, itself MAX_DEPTH levels deep at most, lies six levels down in a receipt's votes.
_DEPTH: Final = MAX_DEPTH + 16
_SAFE_DIGITS: Final = len(str(MAX_SAFE_INTEGER))


def verdict_line(verdict: Verdict) -> bytes:
    """Return the line of a verdict, with its LF."""
    return canonical_bytes(asdict(verdict))


def read_verdict_line(line: bytes, where: str) -> Verdict:
    """Return the verdict on a line; its receipt has the digest that it had when it was written.

    Raises RecordError, naming `where`.
    """
    try:
        value = strict_loads(line, max_depth=_DEPTH, parse_int=_number)
    except ValueError as error:
        raise RecordError(f"{where} is not JSON: {error}", fix="export the run again") from error
    return read_verdict(value, where)


def _number(text: str) -> Any:
    """Return what canonical JSON means by digits: beyond 2^53-1 it writes only floats so."""
    if len(text) <= _SAFE_DIGITS:
        number = int(text)
        if abs(number) <= MAX_SAFE_INTEGER:
            return number
    return float(text)
