"""A320 trajectories: JSON Lines as the harness records them, and the verdict appended to them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from grader_service.errors import TrajectoryError
from grader_service.records.canonical import canonical_bytes

# Canonical JSON recurses, and where Python's own limit strikes depends on who calls. A fixed limit
# far below it gives the same answer everywhere.
MAX_DEPTH: Final = 128

SCHEMA_VERSION: Final = "1"

_BLANK: Final = b" \t\r"
_AT_MOST_ONE: Final = ("meta", "setup", "final")


@dataclass(frozen=True, slots=True)
class Outline:
    """The records of one run, by what they are.

    `meta` is None only beside a `harness_error`. Of repeatable records but tool calls the last
    counts. Records of unknown types are left out.
    """

    meta: Mapping[str, Any] | None
    setup: Mapping[str, Any] | None
    calls: Sequence[Mapping[str, Any]]
    provider_error: Mapping[str, Any] | None
    harness_error: Mapping[str, Any] | None
    final: Mapping[str, Any] | None
    judgement: Mapping[str, Any] | None


def parse_trajectory(data: bytes) -> list[dict[str, Any]]:
    """Return the records of a trajectory, one per line that is not blank.

    Lines end at LF only: U+2028 and its like occur raw inside strings. A last line that can't be
    read was cut off by a crash and is dropped. Raises TrajectoryError, naming the line, for any
    other line that is no object with a string `type`, and for what `outline` refuses.
    """
    records: list[dict[str, Any]] = []
    lines: list[int] = []
    unreadable: tuple[int, Exception] | None = None
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip(_BLANK):
            continue
        if unreadable is not None:
            raise _corrupt(*unreadable)
        try:
            record = _parse_line(line)
        except (ValueError, RecursionError) as error:
            unreadable = number, error
            continue
        if not isinstance(record, dict) or not isinstance(record.get("type"), str):
            raise TrajectoryError(
                f'line {number} is no JSON object with a string "type"',
                fix="give the file as the harness wrote it",
            )
        records.append(record)
        lines.append(number)
    outline(records, lines)
    return records


def outline(records: Sequence[Mapping[str, Any]], lines: Sequence[int] | None = None) -> Outline:
    """Sort the records of one run by type. `lines` are their line numbers, for messages.

    Raises TrajectoryError for a second `meta`, `setup` or `final`, for a schema version other than
    "1", and where both `meta` and `harness_error` are missing.
    """
    calls = []
    newest: dict[str, Mapping[str, Any]] = {}
    for position, record in enumerate(records):
        kind = record["type"]
        if kind == "tool_call":
            calls.append(record)
            continue
        if kind in _AT_MOST_ONE and kind in newest:
            raise TrajectoryError(
                f"{_place(position, lines)} is a second {kind} record",
                fix="split the file: it holds more than one run",
            )
        newest[kind] = record
        if kind == "meta":
            _check_version(record, _place(position, lines))
    if "meta" not in newest and "harness_error" not in newest:
        raise TrajectoryError(
            "there is no meta record", fix="give a whole trajectory: its first line is cut or gone"
        )
    return Outline(
        meta=newest.get("meta"),
        setup=newest.get("setup"),
        calls=calls,
        provider_error=newest.get("provider_error"),
        harness_error=newest.get("harness_error"),
        final=newest.get("final"),
        judgement=newest.get("judgement"),
    )


def with_judgement(data: bytes, judgement: Mapping[str, Any]) -> bytes:
    """Return the trajectory with a `judgement` record as its new last line.

    A last line that can't be read is dropped first: before another line it would be corruption.
    """
    data = whole_lines(data)
    if data and not data.endswith(b"\n"):
        data += b"\n"
    return data + canonical_bytes({**judgement, "type": "judgement"})


def whole_lines(data: bytes) -> bytes:
    """Return the trajectory without a last line that can't be read, if it has one."""
    last = data.rstrip(_BLANK + b"\n")
    start = last.rfind(b"\n") + 1
    try:
        if last:
            _parse_line(last[start:])
    except (ValueError, RecursionError):
        return data[:start]
    return data


def _parse_line(line: bytes) -> Any:
    value = json.loads(line.decode("utf-8"))
    # Counting brackets is cheap and never too low; few lines have so many.
    if line.count(b"{") + line.count(b"[") > MAX_DEPTH and _too_deep(value):
        raise RecursionError
    return value


def _too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return False
    return True


def _check_version(meta: Mapping[str, Any], place: str) -> None:
    versions = meta.get("versions")
    if isinstance(versions, Mapping) and "trajectory_schema" in versions:
        version = versions["trajectory_schema"]
        if version != SCHEMA_VERSION:
            raise TrajectoryError(
                f'{place} has trajectory schema {version!r:.40}, only "{SCHEMA_VERSION}" is known',
                fix="update robot-autograder, or record the run with a harness of schema 1",
            )


def _place(position: int, lines: Sequence[int] | None) -> str:
    return f"record {position + 1}" if lines is None else f"line {lines[position]}"


def _corrupt(number: int, error: Exception) -> TrajectoryError:
    if isinstance(error, UnicodeDecodeError):
        why = "is not UTF-8"
    elif isinstance(error, json.JSONDecodeError):
        why = f"is not JSON: {error.msg} at column {error.colno}"
    elif isinstance(error, RecursionError):
        why = f"is nested deeper than {MAX_DEPTH} levels"
    else:
        why = "holds an integer of too many digits"
    corrupt = TrajectoryError(
        f"line {number} {why}",
        fix="get the file again from where it was recorded: only its last line may be cut off",
    )
    corrupt.__cause__ = error
    return corrupt
