"""`autograder grade`: grade trials on disk in this process, without a service."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Annotated, Any

import typer
from rich.progress import track

from grader_service.cli.grade_report import Ended, Report, finish
from grader_service.cli.output import err, print_error
from grader_service.client.disk import read_bytes
from grader_service.errors import AutograderError, InputError, UsageError
from grader_service.graders import Grader, resolve_grader
from grader_service.graders.folder import TrialFolder
from grader_service.graders.inputs import Todo, find_trials
from grader_service.graders.trial import TrialGrader, has_definitive
from grader_service.judging.rubric import resolve_rubric
from grader_service.records.strict_json import parse_strict
from grader_service.records.verdict import effective_verdict

_MODELS = ("vlm", "llm_judge")


def grade_command(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH",
            help="Saved or exported trials, folders with a trials.json or trial.json, logs of "
            "inspect-robots, A320 .jsonl files.",
        ),
    ],
    grader: Annotated[
        str, typer.Option(help="vlm (robot trials), llm_judge (A320), operator (you), or another.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--out", help="Where trials go that are not in folders of their own yet."),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(help="A judge of the settings, or provider:model (default: the default)."),
    ] = None,
    stub: Annotated[
        bool, typer.Option("--stub", help="Ask a scripted stub model: no key, no network.")
    ] = False,
    script: Annotated[
        Path | None, typer.Option(help="With --stub: a script of the stub model's answers.")
    ] = None,
    rubric: Annotated[
        str | None,
        typer.Option(help="A library rubric's id, or free text. A trial's own rubric beats it."),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Grade trials that have a verdict, too.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="How many trials a model is asked at once.")] = 4,
    show_verdict: Annotated[
        bool, typer.Option("--show-verdict", help="operator: show what was said before.")
    ] = False,
    reviewer: Annotated[
        str | None, typer.Option(help="operator: your name (default: the user's).")
    ] = None,
    stdin: Annotated[
        bool, typer.Option("--stdin", help="operator: read answers from what is no terminal.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Grade trials on disk in this process. Verdicts and receipts go to the trials' folders.

    Trials that have a verdict are left alone. Saved and exported trials are graded where they are;
    others are copied to --out first. Receipts are those of the service: `verify` checks them.

    Example: autograder grade exported --grader operator

    Exit codes: 0 done, 1 some trials are ungraded or were not reached, 2 wrong use or nothing
    usable.
    """
    if rubric is not None:
        resolve_rubric(rubric)
    if (judge or stub or script) and grader not in _MODELS:
        raise UsageError(f"the grader {grader!r} asks no model", fix="leave out --judge and --stub")
    if script is not None and not stub:
        raise UsageError("--script is for the stub model", fix="add --stub")
    dialogue = _Dialogue()
    with ExitStack() as closing:
        options: dict[str, Any] = {}
        if grader in _MODELS:
            options = {"rubric": rubric, "judge": judge}
            if stub:
                options["judge"] = closing.enter_context(_stub_judge(script))
        elif grader == "operator":
            _require_somebody(stdin=stdin)
            options = {"rubric": rubric, "reviewer": reviewer, "show_verdict": show_verdict}
            options |= {"ask": dialogue.ask, "say": dialogue.say}
        made = _on_disk(resolve_grader(grader, **options))
        closing.callback(getattr(made, "close", lambda: None))
        todos = list(find_trials(paths, output, kinds=made.kinds))
        work = partial(_grade, made, again=again, folders=_Folders())
        stop = getattr(made, "stop", None)
        if grader == "operator":
            report = _one_by_one(todos, work, dialogue)
        else:
            report = _at_once(todos, work, jobs=jobs, stop=stop)
    finish(report, made, as_json=as_json)


class _Folders:
    """The folders that are being graded: what is named twice is graded once."""

    def __init__(self) -> None:
        self._seen: set[Path] = set()
        self._lock = Lock()

    def open(self, todo: Todo) -> TrialFolder | None:
        """Return the folder of a trial; None when it was opened before."""
        # Two trials may be copied to the same folder, if they are the same.
        with self._lock:
            folder = todo.open()
            path = folder.path.resolve()
            new = path not in self._seen
            self._seen.add(path)
        return folder if new else None


@contextmanager
def _stub_judge(script: Path | None) -> Iterator[Any]:
    from grader_service.graders.judges import judge_of
    from grader_service.providers.stub import StubModel
    from grader_service.settings import JudgeSettings

    rules = parse_strict(read_bytes(script), what=str(script)) if script is not None else []
    with StubModel(script=rules) as model:
        settings = JudgeSettings(provider="openai", model="stub", base_url=model.url, stub=True)
        yield judge_of("stub", settings)


def _require_somebody(*, stdin: bool) -> None:
    if not stdin and not sys.stdin.isatty():
        print_error(
            InputError(
                "nobody can answer here: standard input is no terminal",
                fix="run it at a terminal, or give answers with --stdin",
            )
        )
        raise typer.Exit(1)


class _Dialogue:
    """Talks to a person on stderr; `heading` comes before the next words, if there are any."""

    heading = ""

    def say(self, text: str) -> None:
        err.print(self.heading + text, markup=False)
        self.heading = ""

    def ask(self, prompt: str) -> str:
        err.print(prompt, end="", markup=False)
        return input()


def _on_disk(grader: Grader) -> TrialGrader:
    if not isinstance(grader, TrialGrader):
        raise UsageError(
            f"the grader {grader.name!r} can't grade what lies on disk",
            fix="use it in the harness, or `autograder submit` for the service",
        )
    return grader


def _grade(grader: TrialGrader, todo: Todo, *, again: bool, folders: _Folders) -> Ended | None:
    if todo.kind not in grader.kinds:
        return Ended(Path(todo.where), todo.where, "left_out")
    folder = folders.open(todo)
    if folder is None:
        return None
    trial = folder.load()
    ended = partial(Ended, folder.path, trial.name)
    counts = effective_verdict(trial.verdicts)
    if has_definitive(trial.verdicts):
        return ended("kept", counts)
    # Once: its source may be any word.
    verdict = None if trial.verdicts else trial.adopted()
    if verdict is not None:
        folder.add(verdict)
        return ended("adopted", verdict)
    if grader.has_graded(trial.verdicts) and not again:
        return ended("kept", counts)
    verdict = grader.verdict(trial)
    if verdict is None:
        return ended("skipped", counts)
    folder.add(verdict)
    return ended("graded", verdict)


_Work = Callable[[Todo], Ended | None]


def _one_by_one(todos: Sequence[Todo], work: _Work, dialogue: _Dialogue) -> Report:
    report = Report([], [])
    for number, todo in enumerate(todos, start=1):
        dialogue.heading = f"\n{number} of {len(todos)}: "
        try:
            _take(report, todo, partial(work, todo))
        except EOFError:
            report.stopped = "nobody answers any more: standard input has ended"
            break
        except KeyboardInterrupt:
            report.stopped = "stopped"
            break
    if report.stopped is not None:
        # The question that was not answered stands on an open line.
        err.print()
    return report


def _at_once(todos: Sequence[Todo], work: _Work, *, jobs: int, stop: Any) -> Report:
    report = Report([], [])
    pool = ThreadPoolExecutor(jobs)
    futures: dict[Future[Ended | None], Todo] = {pool.submit(work, todo): todo for todo in todos}
    waiting = as_completed(futures)
    try:
        for _ in track(waiting, "grading", len(todos), console=err, transient=True,
                       disable=not err.is_terminal):  # fmt: skip
            pass
    except KeyboardInterrupt:
        report.stopped = "stopped"
        if stop is not None:
            stop.set()
        err.print("stopping; calls that are under way end first", markup=False)
    pool.shutdown(cancel_futures=True)
    for future, todo in futures.items():
        if not future.cancelled():
            _take(report, todo, future.result)
    return report


def _take(report: Report, todo: Todo, result: Callable[[], Ended | None]) -> None:
    try:
        ended = result()
    except AutograderError as error:
        report.errors.append((todo.where, error))
    else:
        if ended is not None:
            report.trials.append(ended)
