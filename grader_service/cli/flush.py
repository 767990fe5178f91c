"""`autograder flush`: send what the rig could not send."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from grader_service.cli.output import counting, out, print_error, print_json
from grader_service.client.http import Client
from grader_service.client.spool import Entry, Spool, default_folder
from grader_service.errors import UnavailableError


@dataclass(slots=True)
class _Tally:
    """What became of the entries; `unreachable` by the service's URL."""

    sent: int = 0
    busy: int = 0
    unreachable: dict[str, UnavailableError] = field(default_factory=dict)


def flush_command(
    url: Annotated[
        str | None,
        typer.Option(help="Send everything there, instead of where each trial was to go."),
    ] = None,
    spool: Annotated[
        Path | None,
        typer.Option(
            envvar="AUTOGRADER_SPOOL",
            help="The folder (default: $XDG_STATE_HOME/autograder/spool).",
        ),
    ] = None,
    rejected: Annotated[
        bool, typer.Option("--rejected", help="Send what was refused once more, too.")
    ] = False,
    rubric: Annotated[
        str | None, typer.Option(help="With --rejected: under this rubric instead of its own.")
    ] = None,
    judge: Annotated[
        str | None, typer.Option(help="With --rejected: by this judge instead of its own.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Send trials that a rig kept because the service was down or the harness was killed.

    Each is sent once, however often this runs. What the service refuses for good is kept in a
    folder `rejected` with the reason beside it, until you delete it or send it with --rejected.

    Example: autograder flush

    Exit codes: 0 nothing is left, 1 some trials were refused or are left, 3 a service can't be
    reached.
    """
    kept = Spool(spool or default_folder())
    kept.clean()
    changes = {"rubric": rubric, "judge": judge}
    changes = {name: value for name, value in changes.items() if value is not None}
    todo: list[tuple[Entry, dict[str, Any]]] = [(entry, {}) for entry in kept.waiting()]
    if rejected:
        todo += [(entry, changes) for entry in kept.rejected()]
    tally = _send(kept, todo, url)
    _report(kept, tally, as_json=as_json)
    if tally.unreachable:
        raise typer.Exit(3)
    raise typer.Exit(1 if kept.waiting() or kept.rejected() else 0)


def _send(kept: Spool, todo: list[tuple[Entry, dict[str, Any]]], url: str | None) -> _Tally:
    tally = _Tally()
    clients: dict[str, Client] = {}
    with ExitStack() as open_clients, counting() as progress:
        for entry, changes in progress.track(todo, description="sending"):
            to = url or entry.url
            if to in tally.unreachable:
                continue
            if to not in clients:
                clients[to] = open_clients.enter_context(Client(to))
            try:
                outcome = kept.send(entry, clients[to], **changes)
            except UnavailableError as error:
                tally.unreachable[to] = error
                continue
            tally.sent += outcome.kind == "sent"
            tally.busy += outcome.kind == "busy"
    return tally


def _report(kept: Spool, tally: _Tally, *, as_json: bool) -> None:
    left, refused = kept.waiting(), kept.rejected()
    if as_json:
        print_json(
            {
                "spool": str(kept.folder),
                "sent": tally.sent,
                "left": [_described(entry) for entry in left],
                "rejected": [
                    _described(entry) | {"problem": entry.problem, "path": str(entry.path)}
                    for entry in refused
                ],
                "unreachable": {to: error.message for to, error in tally.unreachable.items()},
            }
        )
        return
    out.print(f"sent {tally.sent}, left {len(left)}, rejected {len(refused)}", markup=False)
    if tally.busy:
        out.print(f"{tally.busy} are being sent by another process", markup=False)
    for problem, count in Counter(entry.problem for entry in refused).items():
        out.print(f"{count} refused: {problem or 'for a reason that is not kept'}", markup=False)
    for folder in sorted({entry.path.parent for entry in refused}):
        out.print(f"they are in {folder}", markup=False)
    for error in tally.unreachable.values():
        print_error(error)


def _described(entry: Entry) -> dict[str, Any]:
    return {"client_id": entry.client_id, "url": entry.url}
