"""`autograder parse-reply`: what one stored reply comes to, offline."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from grader_service.cli.output import print_json
from grader_service.errors import InputError
from grader_service.judging.reply import parse_reply
from grader_service.judging.rubric import rubric_from_json
from grader_service.judging.wire import WIRES

_FORM = (
    f'give {{"wire": {" | ".join(WIRES)}, "rubric": object or null, "token": text or null, '
    '"body": the response object, or the text on the wire "text"}'
)


def parse_reply_command(
    file: Annotated[str, typer.Argument(help="A stored reply, or - for standard input.")],
) -> None:
    """Say what one stored reply of a judge comes to.

    The file holds {"wire", "rubric", "token", "body"}. Prints one line of JSON: outcome, verdict
    and reason.

    Example: autograder parse-reply reply.json
    """
    stored = _read(file)
    rubric, token = stored.get("rubric"), stored.get("token")
    if stored.get("wire") not in WIRES or "body" not in stored:
        raise InputError(f"{file} holds no reply of a known wire", fix=_FORM)
    if token is not None and not isinstance(token, str):
        raise InputError(f"the token in {file} is not a text", fix=_FORM)
    decision = parse_reply(
        stored["wire"],
        stored["body"],
        rubric=None if rubric is None else rubric_from_json(rubric),
        token=token,
    )
    print_json(
        {"outcome": decision.outcome, "verdict": decision.verdict, "reason": decision.reason}
    )


def _read(file: str) -> dict[str, Any]:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise InputError(f"{file} can't be read: {error.strerror}", fix=_FORM) from None
    try:
        stored = json.loads(data.decode("utf-8-sig"), parse_int=_number)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file} is not JSON: {error}", fix=_FORM) from None
    if not isinstance(stored, dict):
        raise InputError(f"{file} holds no JSON object", fix=_FORM)
    return stored


def _number(digits: str) -> int | float:
    """Token counts and the like, which nobody reads here: of any length, converted in no time."""
    return int(digits) if len(digits) < 20 else float(digits)  # noqa: PLR2004 - about 64 bits
