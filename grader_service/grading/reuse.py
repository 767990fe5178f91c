"""Verdict reuse: the same question to the same judge, answered before, is not asked again.

The question is the tenant, the record, the rubric and the judge, each by its digest but the tenant.
A record's digest covers its frames, and a judge's digest its model, prompt and parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grader_service.errors import AutograderError
from grader_service.judging.judge import Judged
from grader_service.judging.receipt import Case
from grader_service.judging.stored_receipt import (
    changes,
    decide_again,
    read_receipt,
    reused_receipt,
)
from grader_service.records.canonical import digest_of


def question_of(*, tenant: str, record_digest: str, rubric_digest: str, judge_digest: str) -> str:
    """Return the digest of what a judge is asked, whichever trial and round it is about."""
    return digest_of([tenant, record_digest, rubric_digest, judge_digest])


def is_an_answer(judged: Judged) -> bool:
    """Say whether other trials may take this verdict over: its own reply led to it."""
    receipt = judged.receipt
    own_reply = receipt["reply"] is not None and receipt["reused_from"] is None
    return own_reply and judged.decision.outcome != "ungraded"


def take_over(case: Case, earlier: Mapping[str, Any]) -> Judged | None:
    """Return the verdict of an earlier receipt as one on this case.

    None where today's parser does not read the earlier reply as it was read then.
    """
    try:
        receipt = read_receipt(earlier)
        decision = decide_again(receipt)
        if decision is None or any(changes(receipt)):
            return None
    except AutograderError:
        return None
    return Judged(decision, reused_receipt(case, earlier))
