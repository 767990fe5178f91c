"""A judge: one configured model, asked about one trial, answering with a decision and a receipt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from grader_service.errors import BadOutputError, JudgeError, PermanentError, TryLaterError
from grader_service.judging.evidence import Evidence, Insufficient, nothing_to_judge, show
from grader_service.judging.pricing import PriceList, TokenPrice
from grader_service.judging.prompt import (
    PROMPT_VERSION,
    REPLY_SCHEMA,
    Marks,
    Prompt,
    bundle_prompt,
    frames_prompt,
)
from grader_service.judging.receipt import Asked, Case, build_receipt
from grader_service.judging.reply import parse_reply
from grader_service.providers.base import RUNGS, Answer, Ask, Provider, ProviderConfig
from grader_service.providers.base import RungRefusedError as Refused
from grader_service.records.canonical import digest_of
from grader_service.records.verdict import Decision

# Replies that say nothing usable by accident: the same question may well be answered properly.
# A refusal or another trial's token is no accident.
_REPAIRABLE: Final = frozenset({"reply_invalid", "reply_conflicting", "reply_truncated"})


@dataclass(frozen=True, slots=True)
class JudgeConfig:
    """What makes a judge: where the model is and how it is asked. `stub` marks a scripted one.

    `price` is what its calls cost, if not what the vendor's list of prices says.
    """

    name: str
    provider: ProviderConfig
    max_tokens: int = 4096
    deadline_s: float = 120.0
    stub: bool = False
    price: TokenPrice | None = None

    @property
    def prices(self) -> PriceList:
        return PriceList(self.provider, self.price, self.stub)

    @property
    def digest(self) -> str:
        """The judge's identity: whatever could change an answer, and no secret."""
        return digest_of(
            {
                "provider": self.provider.kind,
                "model": self.provider.model,
                "base_url": self.provider.base_url,
                "effort": self.provider.effort,
                "detail": self.provider.detail,
                "max_tokens": self.max_tokens,
                "prompt": PROMPT_VERSION,
                "stub": self.stub,
            }
        )


@dataclass(frozen=True, slots=True)
class Judged:
    """A decision and the receipt that lets anyone re-check it."""

    decision: Decision
    receipt: dict[str, Any]


@dataclass
class Judge:
    """Asks one provider. Thread-safe; built once in each worker process."""

    config: JudgeConfig
    provider: Provider
    secret: bytes = field(repr=False)

    @property
    def digest(self) -> str:
        return self.config.digest

    def source(self, kind: str) -> str:
        """Return what a verdict of this judge on a trial of `kind` names as its source."""
        if self.config.stub:
            return "stub"
        return "vlm" if kind == "robot" else "llm_judge"

    def judge_frames(
        self,
        case: Case,
        *,
        instruction: str,
        frames: Sequence[Evidence],
        instruction_from: str = "scene",
    ) -> Judged:
        """Judge a robot trial by its frames; the receipt tells where the instruction was found.

        Nothing is asked when the last frames are missing, unreadable or blank. Raises
        TryLaterError when the provider may answer later.
        """
        shown = show(frames, case.rubric.frames)
        if isinstance(shown, Insufficient):
            return self._end(case, shown.decision, note=shown.note)
        prompt = frames_prompt(
            instruction=instruction,
            rubric=case.rubric,
            frames=shown.frames,
            marks=Marks.of(self.secret, case.trial_id, case.round),
        )
        seen = {
            "frames": list(shown.receipt),
            "flags": list(shown.flags),
            "instruction": instruction,
            "instruction_from": instruction_from,
        }
        return self._ask(case, prompt, seen)

    def judge_bundle(self, case: Case, *, bundle: Mapping[str, Any] | None) -> Judged:
        """Judge an A320 run by its `judge_bundle`; an empty one is abstained on without a call.

        Raises TryLaterError as `judge_frames` does.
        """
        seen = {"bundle_digest": digest_of(bundle)}
        nothing = nothing_to_judge(bundle)
        if bundle is None or nothing is not None:
            decision = Decision.abstained("nothing_to_judge")
            return self._end(case, decision, seen=seen, note=nothing)
        marks = Marks.of(self.secret, case.trial_id, case.round)
        return self._ask(case, bundle_prompt(bundle=bundle, rubric=case.rubric, marks=marks), seen)

    def failed(self, case: Case, error: JudgeError) -> Judged:
        """Return the end of a grading whose provider was asked in vain too often."""
        return self._end(case, Decision.ungraded(error.reason), error=error)

    def _ask(self, case: Case, prompt: Prompt, seen: Mapping[str, Any]) -> Judged:
        """Ask, and once again when the reply is unusable by accident.

        The repair is a fresh call: nothing of the first reply is shown to it. The last call
        decides, the one before it stands in the receipt as a vote.
        """
        asked: list[Asked] = []
        budget = self.config.max_tokens
        try:
            while True:
                asked.append(self._call(case, prompt, budget))
                decision = asked[-1].decision
                if len(asked) > 1 or decision.reason not in _REPAIRABLE:
                    return self._end(case, decision, prompt=prompt, seen=seen, asked=asked)
                if decision.reason == "reply_truncated":
                    budget *= 2
        except TryLaterError as error:
            # A reply was billed and is lost: waiting for the repair must come to an end.
            error.counts = error.counts or bool(asked)
            raise
        except PermanentError as error:
            decision = Decision.ungraded(error.reason)
            return self._end(case, decision, prompt=prompt, seen=seen, asked=asked, error=error)

    def _call(self, case: Case, prompt: Prompt, max_tokens: int) -> Asked:
        """Ask once and say what came of it."""
        try:
            answer = self._climb_down(prompt, max_tokens)
        except BadOutputError as error:
            return Asked(None, Decision.ungraded(error.reason), error)
        token = prompt.marks.token
        return Asked(answer, parse_reply(answer.wire, answer.body, rubric=case.rubric, token=token))

    def _climb_down(self, prompt: Prompt, max_tokens: int) -> Answer:
        """Ask with the strictest form of answer that the endpoint takes."""
        for rung in RUNGS:
            ask = Ask(
                system=prompt.system,
                parts=prompt.ask(rung),
                rung=rung,
                schema=REPLY_SCHEMA,
                max_tokens=max_tokens,
                deadline_s=self.config.deadline_s,
            )
            try:
                return self.provider.ask(ask)
            except Refused:
                continue
        raise PermanentError(
            "the endpoint takes no form of answer, not even plain text",
            reason="provider_rejected",
            fix="check the judge's base_url and model",
        )

    def _end(self, case: Case, decision: Decision, **of_receipt: Any) -> Judged:
        judge = {
            "name": self.config.name,
            "digest": self.digest,
            "provider": self.config.provider.kind,
            "model_asked": self.config.provider.model,
        }
        receipt = build_receipt(
            case, decision, judge=judge, prices=self.config.prices, **of_receipt
        )
        return Judged(decision, receipt)
