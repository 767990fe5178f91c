"""The command `autograder`."""

from __future__ import annotations

import importlib
import sys
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_command

from grader_service import __version__
from grader_service.cli.output import print_error
from grader_service.errors import AutograderError, SetupError


class _Entry(NamedTuple):
    """Where a command lives, and its line in the help."""

    module: str
    attribute: str
    summary: str


# Modules are imported when their command runs: `score` must not wait for what `serve` needs, and
# the base install lacks it.
_COMMANDS: Final = {
    "submit": _Entry("submit", "submit_command", "Submit trials to a running service."),
    "score": _Entry("score", "score_command", "Score records on disk: offline, deterministic."),
    "export": _Entry("export", "export_command", "Write a run's trials and verdicts to a folder."),
    "parse-reply": _Entry("parse_reply", "parse_reply_command", "Say what one stored reply means."),
    "rubric": _Entry("rubric", "rubric_app", "Check, list and show rubrics."),
    "verify": _Entry("verify", "verify_command", "Re-check receipts and files offline."),
    "reparse": _Entry("reparse", "reparse_command", "Parse stored replies again, offline."),
    "estimate": _Entry("estimate", "estimate_command", "Say what judging trials would cost."),
    "regrade": _Entry("regrade", "regrade_command", "Have trials of a run judged again."),
    "watch": _Entry("watch", "watch_command", "Follow a run until its trials have ended."),
    "grade": _Entry("grade", "grade_command", "Grade trials on disk, without a service."),
    "harvest": _Entry("harvest", "harvest_command", "Write verdicts into the harness' logs."),
    "flush": _Entry("flush", "flush_command", "Send what the rig could not send."),
    "queue": _Entry("queue", "queue_app", "Show, retry or cancel what waits."),
    "prune": _Entry("prune", "prune_command", "Delete old trials and their blobs."),
    "up": _Entry("up", "up_command", "Run the whole service on this machine."),
    "serve": _Entry("serve", "serve_command", "Run the HTTP API."),
    "worker": _Entry("serve", "worker_command", "Run one worker process."),
    "migrate": _Entry("serve", "migrate_command", "Bring the database to the newest schema."),
    "stub-model": _Entry("stub_model", "stub_model_command", "Serve a model without a model."),
}


class _Lazy(TyperGroup):
    """A group that imports a command when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        entry = _COMMANDS.get(cmd_name)
        return None if entry is None else _load(cmd_name, entry)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in _COMMANDS.items()])


def _load(name: str, entry: _Entry) -> Any:
    try:
        module = importlib.import_module(f"grader_service.cli.{entry.module}")
    except ModuleNotFoundError as missing:
        raise SetupError(
            f"`autograder {name}` needs the server's packages ({missing})",
            fix="pip install 'robot-autograder[server]'",
        ) from missing
    found = getattr(module, entry.attribute)
    if not isinstance(found, typer.Typer):
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(name)(found)
        found = single
    command = get_command(found)
    command.name = name
    return command


app = typer.Typer(
    name="autograder",
    cls=_Lazy,
    help="Grade robot trials: submit them, have them judged, score their records.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(value: bool) -> None:
    if value:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    pass


def main() -> None:
    """Run the command line; errors become one message, its fix and an exit code."""
    try:
        app()
    except AutograderError as error:
        print_error(error)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of our output went away (`| head`).
        sys.exit(1)


if __name__ == "__main__":
    main()
