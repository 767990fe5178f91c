"""`autograder export`: a run's trials as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grader_service.bootstrap import build_service
from grader_service.cli.output import out, print_json
from grader_service.grading.export import export_run
from grader_service.settings import Settings


def export_command(
    run: Annotated[str, typer.Argument(help="The run to export.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to write to.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write a run's trials, frames and verdicts to a folder, one sub-folder for each trial.

    Reads the service's stores directly: run it where they are, with the service's settings.

    Example: autograder export first -o exported && autograder score exported
    """
    service = build_service(Settings.load())
    trials = files = 0
    for name, contents in export_run(service, run):
        for relative, data in contents.items():
            path = output / name / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            files += 1
        trials += 1
    if as_json:
        print_json({"run": run, "output": str(output), "trials": trials, "files": files})
    else:
        out.print(f"{trials} trials ({files} files) of run {run} in {output}", markup=False)
        out.print(f"next: autograder score {output}", markup=False)
