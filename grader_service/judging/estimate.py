"""What it would cost to have trials judged, without asking anybody.

    text tokens     UTF-8 bytes / 4 at least (English), / 2 at most (JSON), the schema included
    image tokens    by the formula of the model's family, for the frame as it would be sent
    output tokens   350 at least, a typical answer without any thinking; at most all that the judge
                    may write, and once again twice as much, since an answer that was cut is
                    asked for again
    calls           one for each question; two at most, the second being the repair

Left out, since only asking tells: frames that turn out blank or damaged (nothing is asked then),
verdicts that are taken over, and calls that were charged though they failed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final, TypeVar

from grader_service.judging.evidence import Evidence, choose_frames, nothing_to_judge
from grader_service.judging.frames import inspect_frame
from grader_service.judging.image_tokens import image_tokens
from grader_service.judging.judge import JudgeConfig
from grader_service.judging.pricing import Cost, plain_usd
from grader_service.judging.prompt import (
    REPLY_SCHEMA,
    LabelledFrame,
    Marks,
    Prompt,
    bundle_prompt,
    frames_prompt,
)
from grader_service.judging.rubric import Rubric
from grader_service.providers.base import Image
from grader_service.records.canonical import canonical_bytes

T = TypeVar("T")

TYPICAL_OUTPUT: Final = 350
# For the least and for the most.
BYTES_PER_TOKEN: Final = (4, 2)

# As long as real ones.
_MARKS: Final = Marks(nonce="0" * 12, token="t-" + "0" * 16)
_NO_IMAGE: Final = Image("image/jpeg", b"")


@dataclass(frozen=True, slots=True)
class Question:
    """One prompt: how many bytes of text, and the pixels (width, height) of each image."""

    text_bytes: int
    images: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Range:
    """The least and the most."""

    low: int
    high: int

    def to_dict(self) -> dict[str, int]:
        return {"min": self.low, "max": self.high}


@dataclass(frozen=True, slots=True)
class Estimate:
    """What some trials would take.

    `input_tokens` is None for a model whose image tokens are not known, `usd` where its price is
    not known either; `why_unknown` says which of them is missing.
    """

    trials: int
    calls: Range
    input_tokens: Range | None
    output_tokens: Range
    usd: tuple[Decimal, Decimal] | None
    source: str | None
    why_unknown: str | None

    def to_dict(self) -> dict[str, Any]:
        cost = None
        if self.usd is not None:
            least, most = map(plain_usd, self.usd)
            cost = {"min_usd": least, "max_usd": most, "source": self.source}
        return {
            "trials": self.trials,
            "calls": self.calls.to_dict(),
            "input_tokens": None if self.input_tokens is None else self.input_tokens.to_dict(),
            "output_tokens": self.output_tokens.to_dict(),
            "cost": cost,
            "unknown_because": self.why_unknown,
        }


def frames_question(
    frames: Sequence[Evidence], *, instruction: str, rubric: Rubric
) -> Question | None:
    """Return what would be asked about frames; None where the last one is missing.

    Reads headers only. Raises FrameError for a frame that a submission would be refused for.
    """
    chosen = choose_frames(frames, max_cameras=rubric.frames.max_cameras)
    if all(frame.phase == "first" for frame in chosen):
        return None
    prompt = frames_prompt(
        instruction=instruction,
        rubric=rubric,
        frames=[LabelledFrame(frame.camera, frame.phase, _NO_IMAGE) for frame in chosen],
        marks=_MARKS,
    )
    return Question(
        _text_bytes(prompt), tuple(_sent_size(frame, rubric.frames.long_edge) for frame in chosen)
    )


def bundle_question(bundle: Mapping[str, Any] | None, *, rubric: Rubric) -> Question | None:
    """Return what would be asked about an A320 run; None where there is nothing to judge."""
    if bundle is None or nothing_to_judge(bundle) is not None:
        return None
    return Question(_text_bytes(bundle_prompt(bundle=bundle, rubric=rubric, marks=_MARKS)))


def estimate(judge: JudgeConfig, questions: Sequence[Question | None]) -> Estimate:
    """Return what a judge would take for trials, each a question or None if nothing is asked."""
    asked = [question for question in questions if question is not None]
    inputs = _all(_input_tokens(question, judge.provider.model) for question in asked)
    costs = None if inputs is None else _all(_costs(judge, tokens) for tokens in inputs)
    why_unknown = None
    if inputs is None:
        why_unknown = f"how many tokens {judge.provider.model!r} takes for an image is not known"
    elif costs is None:
        why_unknown = judge.prices.why_unknown()
    return Estimate(
        trials=len(questions),
        calls=Range(len(asked), 2 * len(asked)),
        input_tokens=None
        if inputs is None
        else Range(sum(tokens.low for tokens in inputs), sum(2 * tokens.high for tokens in inputs)),
        output_tokens=Range(len(asked) * _typical_output(judge), len(asked) * sum(_budgets(judge))),
        usd=None
        if costs is None
        else (_total(least for least, _ in costs), _total(most for _, most in costs)),
        source=costs[0][0].source if costs else None,
        why_unknown=why_unknown,
    )


def sent_size(width: int, height: int, long_edge: int) -> tuple[int, int]:
    """Return the pixels of a frame as it is sent, to within one: turning it changes no count."""
    scale = min(1.0, long_edge / max(width, height))
    return max(1, round(width * scale)), max(1, round(height * scale))


def _sent_size(frame: Evidence, long_edge: int) -> tuple[int, int]:
    info = inspect_frame(frame.data)
    return sent_size(info.width, info.height, long_edge)


def _text_bytes(prompt: Prompt) -> int:
    texts = [part for part in prompt.ask("json_schema") if isinstance(part, str)]
    sent = "".join([prompt.system, *texts]).encode()
    return len(sent) + len(canonical_bytes(REPLY_SCHEMA))


def _input_tokens(question: Question, model: str) -> Range | None:
    """Return the input tokens of one call; None where those of an image are not known."""
    images = _all(image_tokens(model, width, height) for width, height in question.images)
    if images is None:
        return None
    least, most = (math.ceil(question.text_bytes / size) for size in BYTES_PER_TOKEN)
    return Range(sum(images) + least, sum(images) + most)


def _typical_output(judge: JudgeConfig) -> int:
    return min(TYPICAL_OUTPUT, judge.max_tokens)


def _budgets(judge: JudgeConfig) -> tuple[int, int]:
    """Return the most that is written by the first call and by its repair."""
    return judge.max_tokens, 2 * judge.max_tokens


def _costs(judge: JudgeConfig, tokens: Range) -> tuple[Cost, Cost] | None:
    """Return the least and the most that one question costs; None for an unknown price."""

    def call(input_tokens: int, output_tokens: int) -> Cost | None:
        usage = {"input_tokens": input_tokens, "output_tokens": output_tokens}
        return judge.prices.of_call(usage)

    least = call(tokens.low, _typical_output(judge))
    most = _all(call(tokens.high, budget) for budget in _budgets(judge))
    if least is None or most is None:
        return None
    return least, replace(least, usd=_total(most))


def _total(costs: Iterable[Cost]) -> Decimal:
    return sum((cost.usd for cost in costs), Decimal())


def _all(values: Iterable[T | None]) -> list[T] | None:
    """Return the values, or None if one of them is."""
    found = []
    for value in values:
        if value is None:
            return None
        found.append(value)
    return found
