"""`autograder export`: a run's trials as files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final, Protocol

import typer

from grader_service.cli.output import out, print_error, print_json
from grader_service.client.disk import find_inputs
from grader_service.client.folders import write_files
from grader_service.client.http import Client
from grader_service.client.submissions import Choices, drafts
from grader_service.errors import (
    AutograderError,
    NotFoundError,
    SetupError,
    UnavailableError,
    UsageError,
)

_TRIAL_ID: Final = re.compile(r"[0-9a-f-]{36}")


def export_command(
    run: Annotated[str, typer.Argument(help="The run to export.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to write to.")],
    copies_of: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="Write copies of these A320 .jsonl files (folders, patterns; may be repeated) "
            "with their verdicts as `judgement` records, and nothing else.",
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            envvar="AUTOGRADER_URL",
            help="Fetch from the service that listens there (default: read its stores directly, "
            "where they are).",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write a run's trials, frames and verdicts to a folder, one sub-folder for each trial.

    Without --url this reads the service's stores: run it where they are, with its settings.

    Example: autograder export first -o exported && autograder score exported

    With --copies-of, trajectories on disk that were submitted to the run come back under their own
    names, with what the LLM judge said of them: autograder export R -o judged --copies-of runs

    Exit codes: 0 done, 1 some files have no verdict in the run, 2 there is no such run, 3 the
    service can't be reached.
    """
    with _source(url) as source:
        if copies_of:
            errors = _copy(source, run, output, copies_of, as_json=as_json)
            raise typer.Exit(1 if errors else 0)
        trials = files = 0
        for name, contents in source.trials(run):
            write_files(output / name, contents)
            files += len(contents)
            trials += 1
    if as_json:
        print_json({"run": run, "output": str(output), "trials": trials, "files": files})
    else:
        out.print(f"{trials} trials ({files} files) of run {run} in {output}", markup=False)
        out.print(f"next: autograder score {output}", markup=False)


def _copy(
    source: _Source, run: str, output: Path, paths: Sequence[str], *, as_json: bool
) -> Sequence[AutograderError]:
    """Write a judged copy of each trajectory, in the tree that the originals have together."""
    found = [item for item in find_inputs(paths) if item.kind == "a320"]
    if not found:
        raise UsageError(
            "there is no A320 trajectory in what you named", fix="name .jsonl files, or a folder"
        )
    originals = [item.path.resolve() for item in found]
    root = os.path.commonpath([path.parent for path in originals])
    names = [str(path.relative_to(root)) for path in originals]
    if not {output.resolve() / name for name in names}.isdisjoint(originals):
        raise UsageError("copies would overwrite originals", fix="name another folder with -o")
    errors: list[AutograderError] = []
    for item, name in zip(found, names, strict=True):
        [draft] = drafts(item, Choices(run=run))
        try:
            judged = source.judged(str(draft.build().trial["client_id"]))
            if judged is None:
                raise NotFoundError(
                    f"{item.path} has no verdict in run {run}",
                    fix=f"autograder submit {item.path} --run {run} --wait",
                )
        except UnavailableError:
            raise
        except AutograderError as refused:
            errors.append(refused)
            continue
        write_files(output, {name: judged})
    copies = len(found) - len(errors)
    if as_json:
        report = {"run": run, "output": str(output), "copies": copies}
        print_json(report | {"errors": [str(error) for error in errors]})
    else:
        for error in errors:
            print_error(error)
        out.print(f"{copies} judged copies in {output}", markup=False)
        out.print(f"next: autograder score {output}", markup=False)
    return errors


class _Source(Protocol):
    """Where trials come from: a running service, or its stores."""

    def trials(self, run: str) -> Iterator[tuple[str, dict[str, bytes]]]:
        """Return each trial of a run as (folder name, files). Raises NotFoundError."""

    def judged(self, client_id: str) -> bytes | None:
        """Return the record of a trial with its verdict on it; None if it has none."""


@contextmanager
def _source(url: str | None) -> Iterator[_Source]:
    if url is None:
        yield _Stores()
    else:
        with Client(url) as client:
            yield _Remote(client)


class _Remote:
    def __init__(self, client: Client) -> None:
        self._client = client

    def trials(self, run: str) -> Iterator[tuple[str, dict[str, bytes]]]:
        self._client.run(run)
        for trial in self._client.trials(run=run):
            # It becomes the name of a folder.
            if not _TRIAL_ID.fullmatch(trial["id"]):
                raise UnavailableError(
                    f"what answers at {self._client.url} is no autograder service",
                    fix="give the address of one with --url",
                )
            yield trial["id"], self._client.files(trial["id"])

    def judged(self, client_id: str) -> bytes | None:
        trial = self._client.find(client_id)
        if trial is None or trial["outcome"] is None:
            return None
        return self._client.record(trial["id"])


class _Stores:
    def __init__(self) -> None:
        try:
            from grader_service.bootstrap import build_service
            from grader_service.settings import Settings
        except ModuleNotFoundError as missing:
            raise SetupError(
                f"reading a service's stores needs the server's packages ({missing})",
                fix="pip install 'robot-autograder[server]', or name the service with --url",
            ) from missing
        self._service = build_service(Settings.load())

    def trials(self, run: str) -> Iterator[tuple[str, dict[str, bytes]]]:
        from grader_service.grading.export import export_run

        return export_run(self._service, run)

    def judged(self, client_id: str) -> bytes | None:
        from grader_service.grading import read

        for trial in read.page(self._service, client_id=client_id).trials:
            if trial.outcome is not None:
                return read.record(self._service, trial.id)[1]
        return None
