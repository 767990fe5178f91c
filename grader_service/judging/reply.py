"""The reply grammar: what one reply of a judge comes to, whatever it is made of.

Stop reason, answer text, candidates, fields, contradictions and outcome are looked at in this
order, and the first that is wrong ends it. Nothing is clamped, defaulted or guessed, the work is
linear in the length of the reply, and no reply raises.
"""

from __future__ import annotations

from typing import Any, Final, get_args

from grader_service.judging.decision import decide
from grader_service.judging.reply_object import Number, find_objects
from grader_service.judging.reply_text import answer_only, grade_words
from grader_service.judging.rubric import Rubric
from grader_service.judging.wire import NoAnswerError, generated_text
from grader_service.records.canonical import scrub_surrogates
from grader_service.records.verdict import Decision, Finding, Met, VerdictWord

# A change of the grammar can change what a stored reply comes to: give it a new version.
PARSER_VERSION: Final = "reply/1"

_VERDICTS: Final = get_args(VerdictWord)
_METS: Final = get_args(Met)


def answer_text(wire: str, body: Any) -> str | None:
    """Return the text that the grammar looks at, or None where the reply has no answer."""
    try:
        return answer_only(generated_text(wire, body))
    except NoAnswerError:
        return None


def parse_reply(wire: str, body: Any, *, rubric: Rubric | None, token: str | None) -> Decision:
    """Return the decision of a reply.

    `body` is the response object, or the text (str or UTF-8 bytes) on the wire "text". `token` is
    what the prompt asked to be echoed. Raises UsageError for an unknown wire and for nothing else.
    """
    try:
        text = answer_only(generated_text(wire, body))
    except NoAnswerError as none:
        return Decision.ungraded(none.reason)
    if not text.strip():
        return Decision.ungraded("reply_empty")
    found = find_objects(text)
    if found.begins_broken:
        return Decision.ungraded("reply_invalid")
    words = grade_words(text, found.spans)
    if not found.objects:
        return _from_lines(words)
    reply, *others = found.objects
    if any(other != reply for other in others):
        return Decision.ungraded("reply_conflicting")
    return _from_object(reply, words, rubric, token)


def _from_lines(words: list[str]) -> Decision:
    if not words:
        return Decision.ungraded("reply_invalid")
    word, *others = words
    if any(other != word for other in others):
        return Decision.ungraded("reply_conflicting")
    return _own_verdict(word)


def _from_object(
    reply: dict[str, Any], words: list[str], rubric: Rubric | None, token: str | None
) -> Decision:
    verdict = reply["verdict"]
    suspected = reply.get("injection_suspected", False)
    confidence = _share(reply.get("confidence"))
    if (
        verdict not in _VERDICTS
        or not isinstance(suspected, bool)
        or ("confidence" in reply and confidence is None)
    ):
        return Decision.ungraded("reply_invalid")
    if token is not None and reply.get("token") != token:
        return Decision.ungraded("reply_mismatched")
    findings: tuple[Finding, ...] | None = ()
    decision = verdict
    deciding = rubric if rubric is not None and not rubric.holistic else None
    if deciding is not None:
        findings = _findings(reply.get("criteria"), deciding)
        if findings is None:
            return Decision.ungraded("reply_invalid")
        decision = decide(deciding, findings)
    said = {
        "findings": findings,
        "rationale": _text(reply.get("rationale")),
        "confidence": confidence,
        "injection_suspected": suspected,
        "failure_mode": _failure_mode(reply.get("failure_mode"), rubric),
    }
    if {decision, verdict} == {"success", "failure"} or any(word != verdict for word in words):
        return Decision.ungraded("reply_conflicting", **said)
    if suspected:
        return Decision.abstained("injection_suspected", **said)
    if deciding is not None and decision == "abstain":
        return Decision.abstained("criteria_unclear", **said)
    return _own_verdict(verdict, **said)


def _own_verdict(word: str, **said: Any) -> Decision:
    if word == "abstain":
        return Decision.abstained("judge_abstained", **said)
    return Decision.graded("success" if word == "success" else "failure", **said)


def _findings(entries: Any, rubric: Rubric) -> tuple[Finding, ...] | None:
    """Return one finding for each criterion in the rubric's order, or None."""
    if not isinstance(entries, list):
        return None
    waiting = {criterion.id for criterion in rubric.criteria}
    found: dict[str, Finding] = {}
    for entry in entries:
        if not isinstance(entry, dict) or entry.get("met") not in _METS:
            return None
        id_ = entry.get("id")
        if not isinstance(id_, str) or id_ not in waiting:
            return None
        waiting.remove(id_)
        found[id_] = Finding(id_, _text(entry.get("evidence")) or "", entry["met"])
    return None if waiting else tuple(found[criterion.id] for criterion in rubric.criteria)


def _share(value: Any) -> float | None:
    """Return a JSON number in [0, 1] as a float; None for anything else."""
    number = float(value.text) if isinstance(value, Number) else -1.0
    return number if 0.0 <= number <= 1.0 else None


def _text(value: Any) -> str | None:
    return scrub_surrogates(value) if isinstance(value, str) else None


def _failure_mode(value: Any, rubric: Rubric | None) -> str | None:
    return value if rubric is not None and value in rubric.failure_modes else None
