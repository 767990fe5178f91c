"""`autograder harvest`: write verdicts into the logs that inspect-robots saved."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from grader_service.cli.output import err, out, print_error, print_json
from grader_service.cli.score_tables import plain_table
from grader_service.cli.submit import UrlOption
from grader_service.client.harvest.harvest import Harvest, Wishes, harvest
from grader_service.client.harvest.log_file import find_logs
from grader_service.client.http import DEFAULT_URL, Client
from grader_service.errors import AutograderError, UnavailableError

# With --wait, a service that restarts meanwhile is waited for.
_PATIENCE_S: Final = 60.0


def harvest_command(
    logs: Annotated[
        list[str],
        typer.Argument(metavar="LOG", help="Logs of inspect-robots, or folders of them."),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would change, and change nothing.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the verdicts that are not there yet.")
    ] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait at most, with --wait.")] = 3600.0,
    reducer: Annotated[
        str | None,
        typer.Option(help="The reducer of the task's Epochs, where it can't be found out."),
    ] = None,
    scorer: Annotated[
        list[str] | None,
        typer.Option(help="A scorer to run again on the whole records that the service has."),
    ] = None,
    leave: Annotated[
        list[str] | None, typer.Option(help="A scorer whose scores stay as they are.")
    ] = None,
    again: Annotated[
        bool,
        typer.Option("--again", help="Ask for verdicts that were harvested before once more."),
    ] = False,
    url: UrlOption = DEFAULT_URL,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write verdicts into saved logs, and every score that follows from them.

    A log is then what it had been if the robot had waited. Harvesting it again changes nothing;
    trials whose verdict is not there yet are left for the next time.

    Example: autograder harvest logs/kitchenbench-pour_1a2b3c4d.json

    Exit codes: 0 done, 1 trials still wait for a verdict or some logs were refused, 2 nothing could
    be harvested, 3 the service can't be reached.
    """
    paths = list(find_logs(logs, unfinished=_say_unfinished))
    wishes = Wishes(
        reducer=reducer,
        scorers=tuple(scorer or ()),
        leave=tuple(leave or ()),
        again=again,
        give_up=time.monotonic() + timeout if wait else 0.0,
    )
    done: list[Harvest] = []
    refused: list[tuple[Path, AutograderError]] = []
    away: UnavailableError | None = None
    patience = timeout if wait else 0.0
    with Client(url, retry_s=min(patience, _PATIENCE_S)) as client, err.status("harvesting"):
        for path in paths:
            try:
                one = harvest(client, path, wishes)
                if not dry_run:
                    one.write()
            except UnavailableError as error:
                away = error
                break
            except AutograderError as error:
                refused.append((path, error))
            else:
                done.append(one)
    if not as_json:
        _report(done, refused, dry_run=dry_run)
    elif away is None:
        print_json(_json(done, refused, dry_run=dry_run))
    if away is not None:
        raise away
    if refused and not done:
        raise typer.Exit(2)
    raise typer.Exit(0 if not refused and all(one.complete for one in done) else 1)


def _say_unfinished(path: Path) -> None:
    err.print(f"left alone, since it is still being written: {path}", markup=False)


def _json(
    done: Sequence[Harvest], refused: Sequence[tuple[Path, AutograderError]], *, dry_run: bool
) -> dict[str, Any]:
    return {
        "logs": [
            {
                "path": str(one.log.path),
                "written": one.changed and not dry_run,
                "changes": [asdict(change) for change in one.changes],
                "metrics": {"before": _metrics(one.log.value), "after": _metrics(one.value)},
                "pending": one.pending,
                "missing": one.missing,
                "rejected": one.rejected,
                "cancelled": one.cancelled,
                "left_alone": list(one.left_alone),
            }
            for one in done
        ],
        "errors": [{"path": str(path), "error": str(error)} for path, error in refused],
    }


def _metrics(log: Mapping[str, Any]) -> dict[str, float | None]:
    metrics: dict[str, float | None] = log["results"]["metrics"]
    return metrics


def _report(
    done: Sequence[Harvest], refused: Sequence[tuple[Path, AutograderError]], *, dry_run: bool
) -> None:
    for one in done:
        out.print(f"{one.log.path}: {_summary(one, dry_run=dry_run)}", markup=False)
        if dry_run and one.changes:
            table = plain_table("scene", "epoch", "verdict before", "verdict after")
            for change in one.changes:
                table.add_row(change.scene_id, str(change.epoch), change.before, change.after)
            out.print(table)
        for name, after in _metrics(one.value).items():
            before = _metrics(one.log.value).get(name)
            if before != after:
                out.print(f"  {name}: {_number(before)} -> {_number(after)}", markup=False)
        for line in _hints(one, dry_run=dry_run):
            err.print(f"  {line}", markup=False)
    for _, error in refused:
        print_error(error)


def _summary(one: Harvest, *, dry_run: bool) -> str:
    after = Counter(change.after.partition(":")[0] for change in one.changes)
    verdicts = ", ".join(f"{n} {verdict}" for verdict, n in sorted(after.items()))
    if not one.changed:
        return "nothing to do"
    if not one.changes:
        return f"scores {'would change' if dry_run else 'changed'}"
    trials = f"{len(one.changes)} trial{'' if len(one.changes) == 1 else 's'}"
    return f"{trials} {'would be harvested' if dry_run else 'harvested'}: {verdicts}"


def _hints(one: Harvest, *, dry_run: bool) -> list[str]:
    found = {
        "without a verdict yet": (one.pending, "harvest the log again later, or with --wait"),
        "unknown to the service": (one.missing, "autograder flush sends what a rig kept"),
        "refused by the service for good": (one.rejected, "they stay without a verdict"),
        "cancelled": (one.cancelled, "they stay without a verdict until they are graded again"),
    }
    hints = [f"trials {what}: {number}; {then}" for what, (number, then) in found.items() if number]
    hints += [
        f"{name} was left as it was; if it reads verdicts, --scorer {name} runs it again"
        for name in one.left_alone
        if one.changed
    ]
    page = one.log.path.with_suffix(".html")
    if one.changed and not dry_run and page.exists():
        hints.append(f"{page} shows the log as it was: inspect-robots view {one.log.path}")
    return hints


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"
