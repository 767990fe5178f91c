"""`autograder rubric`: check rubric files, list and show the library."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml

from grader_service.cli.output import err, out, print_json
from grader_service.errors import RubricError, UsageError
from grader_service.judging.rubric import library, library_rubric, load_rubric

if TYPE_CHECKING:
    from grader_service.judging.rubric import Rubric

rubric_app = typer.Typer(
    help="Check rubric files; list and show the rubrics that come with the project.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

_AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value.")]


@rubric_app.command("check")
def check_command(
    files: Annotated[list[str], typer.Argument(help="Rubrics: .yaml, or free text in .txt, .md.")],
    *,
    as_json: _AsJson = False,
) -> None:
    """Check rubrics and print their ids, digests and criteria.

    What is wrong is named with its line. Exit code 1 if a file is no rubric, 2 if no file can be
    read.

    Example: autograder rubric check my-task.yaml
    """
    rubrics: list[dict[str, Any]] = []
    errors: list[dict[str, str]] = []
    unreadable = 0
    for file in files:
        try:
            rubric = load_rubric(Path(file).read_text(encoding="utf-8-sig"), name=file)
        except RubricError as error:
            errors.append({"path": file, "error": str(error)})
        except (OSError, UnicodeDecodeError) as error:
            unreadable += 1
            cause = error.strerror if isinstance(error, OSError) else "not UTF-8"
            errors.append({"path": file, "error": f"{file} can't be read: {cause}"})
        else:
            rubrics.append({"path": file, "digest": rubric.digest, **rubric.to_dict()})
            if not as_json:
                _print_checked(file, rubric)
    if as_json:
        print_json({"rubrics": rubrics, "errors": errors})
    for problem in errors:
        err.print(problem["error"], markup=False)
    if unreadable == len(files):
        raise UsageError("no rubric could be read", fix="give paths of rubric files in UTF-8")
    if errors:
        raise typer.Exit(1)


def _print_checked(file: str, rubric: Rubric) -> None:
    out.print(f"ok {file}: {rubric.id} ({rubric.kind}) {rubric.digest}", markup=False)
    for criterion in rubric.criteria:
        need = "required" if criterion.required else "optional"
        out.print(f"  {criterion.id} ({need}): {criterion.text}", markup=False)


@rubric_app.command("list")
def list_command(*, as_json: _AsJson = False) -> None:
    """List the rubrics that come with the project.

    Example: autograder rubric list
    """
    if as_json:
        print_json([{"digest": item.digest, **item.to_dict()} for item in library().values()])
        return
    width = max(map(len, library()))
    for rubric in library().values():
        out.print(f"{rubric.id:{width}}  {rubric.kind:6}  {rubric.title}", markup=False)


@rubric_app.command("show")
def show_command(
    rubric_id: Annotated[str, typer.Argument(metavar="ID", help="As `rubric list` prints it.")],
    *,
    as_json: _AsJson = False,
) -> None:
    """Show a rubric in full, as a file to start one's own from.

    Example: autograder rubric show robot/stack > my-stack.yaml
    """
    rubric = library_rubric(rubric_id)
    if as_json:
        print_json({"digest": rubric.digest, **rubric.to_dict()})
    else:
        text = yaml.safe_dump(rubric.to_dict(), sort_keys=False, allow_unicode=True, width=96)
        out.print(text, markup=False, end="")
