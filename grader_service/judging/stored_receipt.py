"""Receipts as they were stored: read strictly, and decided again by the installed parser."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from grader_service.errors import RecordError
from grader_service.judging.receipt import Case, outcome_of, what_was_decided
from grader_service.judging.reply import PARSER_VERSION, parse_reply
from grader_service.judging.rubric import Rubric, rubric_from_json
from grader_service.providers.base import Wire
from grader_service.records.canonical import digest_of
from grader_service.records.verdict import Decision, Outcome, VerdictWord

# What a receipt says of its own trial and grading. The rest is about the answer, and the same in
# every receipt that took it over.
_OWN: Final = frozenset(
    {"trial", "round", "parser", "usage", "cost", "previous_receipt", "reused_from"}
)

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)


class Words(_Part):
    outcome: Outcome
    verdict: VerdictWord | None
    reason: str | None


class StoredReply(_Part):
    wire: Wire
    body: Any


class Vote(_Part):
    # None where what came could not be read as a reply.
    reply: StoredReply | None
    outcome: Words


class SeenFrame(_Part):
    camera: str
    phase: Literal["first", "last", "parked"]
    sha256_received: Sha256


class UsedRubric(_Part):
    digest: Sha256
    text: dict[str, Any]


class StoredReceipt(_Part):
    """What can be checked of a receipt; `raw` is all of it."""

    raw: dict[str, Any]
    schema_: Literal["receipt/1"] = Field(alias="schema")
    trial: str
    record_digest: Sha256
    round: int = Field(ge=0)
    rubric: UsedRubric
    nonce: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{12}$")] | None
    token: Annotated[str, StringConstraints(pattern=r"^t-[0-9a-f]{16}$")] | None
    frames: list[SeenFrame] = []
    reply: StoredReply | None
    error: str | None
    parser: str
    votes: list[Vote]
    outcome: Words
    previous_receipt: Sha256 | None
    reused_from: Sha256 | None


class Change(NamedTuple):
    """A value of a receipt that its own reply does not lead to."""

    what: str
    stored: Any
    now: Any


def read_receipt(value: Mapping[str, Any]) -> StoredReceipt:
    """Return a receipt. Raises RecordError that names what is wrong with it."""
    try:
        return StoredReceipt.model_validate({**value, "raw": dict(value)})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"])
        raise RecordError(f"{where}: {first['msg']}", fix="export the run again") from error


def decide_again(receipt: StoredReceipt) -> Decision | None:
    """Return what the receipt's reply comes to now, or None where it did not decide.

    It did not where there is none, and where asking once more for a reply that was unusable ended
    in an error. Raises RubricError for a rubric that can't be read any more.
    """
    if receipt.reply is None:
        return None
    decision = _parse(receipt, receipt.reply, rubric_from_json(receipt.rubric.text))
    return None if receipt.error is not None and decision.outcome == "ungraded" else decision


def changes(receipt: StoredReceipt) -> Iterator[Change]:
    """Return what the receipt's replies come to now and did not when it was written.

    Raises RubricError as `decide_again` does.
    """
    rubric = rubric_from_json(receipt.rubric.text)
    for number, vote in enumerate(receipt.votes):
        if vote.reply is None:
            continue
        now = outcome_of(_parse(receipt, vote.reply, rubric))
        if now != vote.outcome.model_dump():
            yield Change(f"votes[{number}].outcome", vote.outcome.model_dump(), now)
    decision = decide_again(receipt)
    if decision is not None:
        for what, value in what_was_decided(decision, rubric).items():
            if receipt.raw.get(what) != value:
                yield Change(what, receipt.raw.get(what), value)


def _parse(receipt: StoredReceipt, reply: StoredReply, rubric: Rubric) -> Decision:
    return parse_reply(reply.wire, reply.body, rubric=rubric, token=receipt.token)


def reused_receipt(case: Case, earlier: Mapping[str, Any]) -> dict[str, Any]:
    """Return the receipt of a grading that takes over the answer of an earlier receipt.

    Nothing was asked, so nothing was used; nonce and token are those that were asked with.
    """
    return {
        **earlier,
        "trial": case.trial_id,
        "round": case.round,
        "parser": PARSER_VERSION,
        "usage": None,
        "cost": None,
        "previous_receipt": case.previous_receipt,
        "reused_from": digest_of(earlier),
    }


def answer_digest(receipt: Mapping[str, Any]) -> str:
    """Return the digest of what a receipt shares with those that took its answer over."""
    return digest_of({key: value for key, value in receipt.items() if key not in _OWN})
