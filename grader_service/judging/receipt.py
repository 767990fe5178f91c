"""Receipts: the JSON that lets anyone re-check a verdict offline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from grader_service.errors import JudgeError
from grader_service.judging.pricing import PriceList
from grader_service.judging.prompt import PROMPT_VERSION, Prompt
from grader_service.judging.reply import PARSER_VERSION
from grader_service.judging.rubric import Rubric
from grader_service.providers.base import Answer
from grader_service.records.verdict import Decision

RECEIPT_SCHEMA: Final = "receipt/1"


@dataclass(frozen=True, slots=True)
class Case:
    """What a receipt says of the trial, whichever kind of evidence is judged."""

    trial_id: str
    record_digest: str
    round: int
    rubric: Rubric
    previous_receipt: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """One call that was charged, and what its reply comes to by itself.

    There is no answer, but an error, where what came could not be read as one.
    """

    answer: Answer | None
    decision: Decision
    error: JudgeError | None = None

    def vote(self) -> dict[str, Any]:
        answer, error = self.answer, self.error
        return {
            "reply": {"wire": answer.wire, "body": answer.body} if answer else None,
            "request_id": answer.request_id if answer else error.request_id if error else None,
            "error": str(error) if error else None,
            "rung": answer.rung if answer else None,
            "outcome": outcome_of(self.decision),
            "usage": dict(answer.usage) if answer and answer.usage is not None else None,
        }


def outcome_of(decision: Decision) -> dict[str, str | None]:
    """Return the three words that a decision comes to."""
    return {
        "outcome": decision.outcome,
        "verdict": decision.verdict,
        "reason": decision.reason,
    }


def build_receipt(
    case: Case,
    decision: Decision,
    *,
    judge: Mapping[str, Any],
    prompt: Prompt | None = None,
    seen: Mapping[str, Any] | None = None,
    asked: Sequence[Asked] = (),
    error: JudgeError | None = None,
    note: str | None = None,
    prices: PriceList | None = None,
) -> dict[str, Any]:
    """Return the receipt of one grading.

    The last of `asked` decided; those before it stand under `votes`. `usage` and `cost` are over
    all of them, and None where one of them is not known. `seen` is what the judge was shown, in the
    words of its kind of evidence.
    """
    answer = asked[-1].answer if asked else None
    error = error or (asked[-1].error if asked else None)
    answers = [one.answer for one in asked if one.answer is not None]
    if len(answers) < len(asked):
        # What could not be read was charged all the same, and nobody knows how much.
        answers = []
    cost = None if prices is None else prices.of_answers(answers)
    return {
        "schema": RECEIPT_SCHEMA,
        "trial": case.trial_id,
        "record_digest": case.record_digest,
        "round": case.round,
        "rubric": {"digest": case.rubric.digest, "text": case.rubric.to_dict()},
        "prompt": {"version": PROMPT_VERSION, "digest": prompt.digest if prompt else None},
        "nonce": prompt.marks.nonce if prompt else None,
        "token": prompt.marks.token if prompt else None,
        **(seen or {}),
        "judge": {
            **judge,
            "model_answered": answer.model if answer else None,
            "parameters": dict(answer.parameters) if answer else {},
            "rung": answer.rung if answer else None,
        },
        "request_id": answer.request_id if answer else error.request_id if error else None,
        "reply": {"wire": answer.wire, "body": answer.body} if answer else None,
        "error": str(error) if error else note,
        "parser": PARSER_VERSION,
        "usage": _total_usage(answers),
        "cost": None if cost is None else cost.to_dict(),
        "votes": [earlier.vote() for earlier in asked[:-1]],
        **what_was_decided(decision, case.rubric),
        "previous_receipt": case.previous_receipt,
        "reused_from": None,
    }


def what_was_decided(decision: Decision, rubric: Rubric) -> dict[str, Any]:
    """Return what a receipt says of a decision."""
    required = {criterion.id for criterion in rubric.required}
    return {
        "outcome": outcome_of(decision),
        "findings": [
            {
                "id": finding.id,
                "met": finding.met,
                "required": finding.id in required,
                "evidence": finding.evidence,
            }
            for finding in decision.findings
        ],
        "rationale": decision.rationale,
        "confidence": decision.confidence,
        "failure_mode": decision.failure_mode,
    }


def _total_usage(answers: Sequence[Answer]) -> dict[str, int] | None:
    """Return the tokens of all calls together; None where one of them did not tell."""
    total: dict[str, int] = {}
    for answer in answers:
        if answer.usage is None:
            return None
        for name, count in answer.usage.items():
            total[name] = total.get(name, 0) + count
    return total or None
