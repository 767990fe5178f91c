"""`autograder estimate`: say what judging trials on disk would cost, before any is judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer

from grader_service.bootstrap import judge_config
from grader_service.cli.output import out, print_error, print_json
from grader_service.client.disk import find_inputs
from grader_service.client.submissions import Choices, Draft, Submission, drafts
from grader_service.errors import AutograderError, InputError, SetupError
from grader_service.judging.estimate import (
    BYTES_PER_TOKEN,
    TYPICAL_OUTPUT,
    Estimate,
    Question,
    bundle_question,
    estimate,
    frames_question,
)
from grader_service.judging.evidence import Evidence
from grader_service.judging.judge import JudgeConfig
from grader_service.judging.pricing import plain_usd
from grader_service.judging.rubric import (
    DEFAULT_BUNDLE,
    DEFAULT_FRAMES,
    Rubric,
    library_rubric,
    resolve_rubric,
    rubric_from_json,
)
from grader_service.records.judged import definitive_verdict
from grader_service.records.saved import RECORD_PATH, load_trial
from grader_service.records.trajectory import parse_trajectory
from grader_service.scoring.a320 import judge_bundle
from grader_service.settings import JudgeSettings, Settings


def estimate_command(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH",
            help="Folders with a trials.json, saved records, A320 .jsonl files, or patterns.",
        ),
    ],
    judge: Annotated[
        str | None,
        typer.Option(help="A judge of the settings, or provider:model (default: the default)."),
    ] = None,
    rubric: Annotated[
        str | None,
        typer.Option(help="A library rubric's id, or free text. A trial's own rubric beats it."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say what it would cost to have trials judged. Nobody is asked and no key is needed.

    Example: autograder estimate examples/trials --judge anthropic:claude-sonnet-5-5

    Exit codes: 0 done, 1 some trials can't be read, 2 nothing usable.
    """
    config = _judge(judge)
    if rubric is not None:
        resolve_rubric(rubric)
    choices = Choices(run="estimate", rubric=rubric)
    todo = [draft for found in find_inputs(paths) for draft in drafts(found, choices)]
    questions: list[Question | None] = []
    errors: list[tuple[str, AutograderError]] = []
    for draft in todo:
        try:
            questions.append(_question(draft.build()))
        except AutograderError as error:
            errors.append((_where(draft), error))
    if not as_json:
        for where, problem in errors:
            print_error(type(problem)(f"{where}: {problem.message}", fix=problem.fix))
    if not questions:
        raise InputError("no trial could be read", fix="name at least one that can be submitted")
    _print(config, estimate(config, questions), errors, as_json=as_json)
    raise typer.Exit(1 if errors else 0)


def _judge(name: str | None) -> JudgeConfig:
    settings = Settings.load()
    name = name or settings.default_judge_name()
    if name is None:
        raise SetupError(
            "no judge is configured",
            fix="name one, for example --judge openai:gpt-6-luna, or set AUTOGRADER_JUDGES",
        )
    judge = settings.configured_judges().get(name) or JudgeSettings.parse(name)
    # Nobody is asked, so no key is needed; a configuration without one would be refused.
    return judge_config(name, judge, api_key="unused")


def _question(submission: Submission) -> Question | None:
    """Return what a submission would have asked; None where it would end without a call."""
    trial, parts = submission.trial, submission.parts
    if trial["kind"] == "a320":
        rubric = _rubric(trial["rubric"], kind="bundle")
        return bundle_question(judge_bundle(parse_trajectory(parts["trajectory"])), rubric=rubric)
    saved = load_trial(lambda path: parts["record" if path == RECORD_PATH else path])
    if definitive_verdict(saved.record) is not None:
        return None
    own = saved.scene.metadata.get("rubric")
    return frames_question(
        [
            Evidence(frame["camera"], frame["phase"], "", parts[frame["part"]])
            for frame in trial["frames"]
        ],
        instruction=saved.instruction_used or saved.scene.instruction,
        rubric=_rubric(own or trial.get("rubric"), kind="frames"),
    )


def _rubric(value: Any, *, kind: Literal["frames", "bundle"]) -> Rubric:
    if value is None:
        return library_rubric(DEFAULT_FRAMES if kind == "frames" else DEFAULT_BUNDLE)
    return rubric_from_json(value, kind=kind)


def _where(draft: Draft) -> str:
    return f"{draft.path} ({draft.name})"


def _print(
    judge: JudgeConfig,
    found: Estimate,
    errors: Sequence[tuple[str, AutograderError]],
    *,
    as_json: bool,
) -> None:
    provider = judge.provider
    if as_json:
        print_json(
            {
                "judge": {"name": judge.name, "provider": provider.kind, "model": provider.model},
                **found.to_dict(),
                "errors": [{"path": where, "error": str(error)} for where, error in errors],
            }
        )
        return
    for line in (f"judge {judge.name} ({provider.kind}, model {provider.model})", *_lines(found)):
        out.print(line, markup=False)
    least, most = BYTES_PER_TOKEN
    out.print(
        f"least: each trial asked once, {least} bytes of text a token, {TYPICAL_OUTPUT} tokens "
        f"written, no thinking; most: each asked twice, {most} bytes a token, "
        f"{judge.max_tokens} and {2 * judge.max_tokens} tokens written",
        markup=False,
    )


def _lines(found: Estimate) -> list[str]:
    inputs, outputs, usd = found.input_tokens, found.output_tokens, found.usd
    return [
        f"{found.trials} trials, {found.calls.low} to {found.calls.high} calls",
        "tokens in unknown" if inputs is None else f"tokens in {inputs.low:,} to {inputs.high:,}",
        f"tokens out {outputs.low:,} to {outputs.high:,}",
        f"cost unknown: {found.why_unknown}"
        if usd is None
        else f"cost ${plain_usd(usd[0])} to ${plain_usd(usd[1])} ({found.source})",
    ]
