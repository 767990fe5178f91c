"""The graders that come with the project. A factory imports what its grader needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from grader_service.errors import SetupError
from grader_service.graders.registry import Grader, grader

if TYPE_CHECKING:
    from grader_service.graders.model import ModelGrader
    from grader_service.graders.person import Person
    from grader_service.judging.judge import Judge


@grader("vlm")
def vlm(
    judge: str | Judge | None = None,
    rubric: Any = None,
    *,
    timeout: float = 600.0,
    keep: str | Path | None = None,
) -> ModelGrader:
    """A vision model that sees the first and last frames of a robot trial.

    `judge` is a judge of AUTOGRADER_JUDGES or provider:model[@base_url], by default the default
    one. `timeout` bounds, in seconds, how long one trial is asked about. `keep` is a folder to save
    graded trials to, with their receipts. Raises SetupError without a key.
    """
    return _model("vlm", judge, rubric, timeout, keep)


@grader("llm_judge")
def llm_judge(
    judge: str | Judge | None = None, rubric: Any = None, *, timeout: float = 600.0
) -> ModelGrader:
    """A language model that reads what an agent did in a cockpit run. Options as of `vlm`."""
    return _model("llm_judge", judge, rubric, timeout, None)


@grader("operator")
def operator(rubric: Any = None, *, reviewer: str | None = None, **options: Any) -> Person:
    """A person at this terminal; adopts definitive verdicts without asking."""
    from grader_service.graders.person import Person, whoever_this_is

    return Person(reviewer=reviewer or whoever_this_is(), rubric=rubric, **options)


@grader("service")
def service(**options: Any) -> Grader:
    """The grader that submits to a running service: the plug-in of `inspect_robots`."""
    from grader_service.plugins.inspect_robots import autograder

    made: Grader = autograder(**options)
    return made


def _model(
    name: str,
    judge: str | Judge | None,
    rubric: Any,
    timeout: float,
    keep: str | Path | None,
) -> ModelGrader:
    try:
        from grader_service.graders.model import ModelGrader

        if judge is None or isinstance(judge, str):
            from grader_service.graders.judges import build_judge

            judge = build_judge(judge)
    except ModuleNotFoundError as missing:
        raise SetupError(
            f"the grader {name!r} needs the server's packages ({missing})",
            fix="pip install 'robot-autograder[server]'",
        ) from missing
    folder = None if keep is None else Path(keep)
    return ModelGrader(name, judge, rubric, patience_s=timeout, keep=folder)
