"""Whatever a model, or whoever steers it, writes: one listed outcome, in linear time."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader_service.judging.reply import parse_reply
from grader_service.judging.reply_object import MAX_DEPTH
from grader_service.judging.rubric import Rubric
from grader_service.judging.wire import WIRES
from grader_service.records.verdict import ABSTAINED_REASONS, UNGRADED_REASONS, Decision
from tests.judging.replies import (
    HOLISTIC,
    RUBRIC,
    TOKEN,
    chat,
    messages,
    parse,
    reply,
    responses,
    said,
    written,
)

YES = written()

PIECES: Final = [
    *("GRADE: success", "GRADE: failure", "**GRADE:** abstain", "success", "\n", "\n\n", " ", "\r"),
    *("```json\n", "```\n", "~~~\n", "> ", "<think>", "</think>", "`", "**", '"', "\\", "\u200b"),
    *("{", "}", "[", "]", ",", ":", "null", "NaN", "1e999", "\ud800", "\x00", "\u2028"),
    *(YES, written(met="no,yes,yes", verdict="failure"), '{"verdict": "success"}', '{"verdict"'),
    json.dumps(reply(), indent=1),
]
texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=12).map("".join)
fields = st.fixed_dictionaries(
    {},
    optional={
        "verdict": st.sampled_from(["success", "failure", "abstain", "pass", None, 1]),
        "token": st.sampled_from([TOKEN, "t-other", None]),
        "confidence": st.sampled_from([0, 0.5, 1, 2, True, None, "0.5"]),
        "injection_suspected": st.sampled_from([True, False, None, 0]),
        "criteria": st.lists(
            st.fixed_dictionaries(
                {},
                optional={
                    "id": st.sampled_from(["at_goal", "released", "intact", "x", None]),
                    "met": st.sampled_from(["yes", "no", "unclear", "maybe", None]),
                    "evidence": st.text(max_size=3) | st.none(),
                },
            ),
            max_size=4,
        ),
    },
)
words: Final = [
    *("choices", "message", "content", "finish_reason", "refusal", "error", "role", "type", "text"),
    *("output", "status", "incomplete_details", "reason", "stop_reason"),
    *("stop", "length", "refusal", "completed", "incomplete", "output_text", "assistant"),
]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(words) | texts,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(words), inner, max_size=5)
    ),
    max_leaves=15,
)
WHOLE: Final = [
    chat([{"type": "text", "text": YES}], refusal=None),
    responses(YES, incomplete_details={"reason": None}, error=None),
    messages(YES, role="assistant"),
]


@st.composite
def almost_whole(draw: st.DrawFn) -> Any:
    """Return a response object with one value, at any depth, replaced by another."""
    node: Any = [copy.deepcopy(draw(st.sampled_from(WHOLE)))]
    whole, key = node, 0
    while isinstance(node[key], dict | list) and node[key] and draw(st.integers(0, 4)):
        node = node[key]
        key = draw(st.sampled_from(list(node if isinstance(node, dict) else range(len(node)))))
    node[key] = draw(json_values)
    return whole[0]


bodies = st.one_of(
    json_values,
    st.binary(max_size=30),
    texts,
    st.builds(chat, texts | json_values, finish=st.sampled_from(["stop", None, "length"])),
    st.lists(texts, max_size=3).map(lambda parts: responses(*parts)),
    st.lists(texts, max_size=3).map(lambda parts: messages(*parts)),
)


def _is_listed(decision: Decision) -> bool:
    if decision.outcome == "graded":
        return decision.verdict in ("success", "failure") and decision.reason is None
    if decision.outcome == "abstained":
        return decision.verdict == "abstain" and decision.reason in ABSTAINED_REASONS
    return decision.verdict is None and decision.reason in UNGRADED_REASONS


@given(
    st.sampled_from(WIRES),
    bodies,
    st.sampled_from([None, RUBRIC, HOLISTIC]),
    st.sampled_from([None, TOKEN]),
)
def test_any_body_on_any_wire_ends_in_one_listed_outcome(
    wire: str, body: Any, rubric: Rubric | None, token: str | None
) -> None:
    decision = parse_reply(wire, body, rubric=rubric, token=token)
    assert _is_listed(decision)
    assert decision == parse_reply(wire, body, rubric=rubric, token=token)


@settings(max_examples=400)
@given(st.sampled_from(WIRES[1:]), almost_whole())
def test_no_value_of_a_response_object_has_to_be_what_it_should_be(wire: str, body: Any) -> None:
    assert _is_listed(parse_reply(wire, body, rubric=RUBRIC, token=TOKEN))


@given(texts, st.sampled_from([None, RUBRIC, HOLISTIC]))
def test_any_text_on_any_wire_comes_to_the_same(text: str, rubric: Rubric | None) -> None:
    expected = parse(text, rubric=rubric)
    assert _is_listed(expected)
    for wire, body in (
        ("openai.chat", chat(text)),
        ("openai.responses", responses(text)),
        ("anthropic.messages", messages(text)),
    ):
        assert parse_reply(wire, body, rubric=rubric, token=TOKEN) == expected


@given(fields, st.sampled_from([None, RUBRIC, HOLISTIC]))
def test_no_field_is_ever_made_up(object_: dict[str, Any], rubric: Rubric | None) -> None:
    decision = parse(json.dumps(object_), rubric=rubric)
    assert _is_listed(decision)
    if decision.outcome == "graded":
        assert object_["token"] == TOKEN
        assert object_["verdict"] == decision.verdict
        assert object_.get("injection_suspected", False) is False
    if decision.confidence is not None:
        assert decision.confidence == object_["confidence"]
    for finding in decision.findings:
        assert any(
            (item["id"], item["met"]) == (finding.id, finding.met) for item in object_["criteria"]
        )


@given(texts)
def test_a_text_without_the_word_never_grades_success(text: str) -> None:
    assert parse(text.replace("success", "so")).verdict != "success"


# --- what must not change the outcome of a valid object ---------------------------------------

OBJECTS: Final = [
    reply(),
    reply(met="no,yes,yes", verdict="failure", failure_mode="dropped"),
    reply(met="unclear,yes,yes", verdict="abstain"),
    reply(injection_suspected=True),
    reply(token="t-other"),
    reply(met="yes,no,yes"),
    reply(rationale='a "quote", a } brace, ``` a fence,\n> a quote\nGRADE: failure', extra=[{}]),
]
prose = st.text(st.characters(codec="utf-8", exclude_characters="{}[]<>`~"), max_size=40).filter(
    lambda text: "grade" not in text.lower()
)


@given(
    object_=st.sampled_from(OBJECTS),
    before=prose,
    after=prose,
    indent=st.sampled_from([None, 0, 1, 4, "\t"]),
    fence=st.sampled_from(["", "```json\n", "```\n", "~~~\n", "```json "]),
    times=st.integers(1, 3),
    reverse=st.booleans(),
)
def test_prose_fences_indentation_and_repetition_never_change_a_valid_object(
    *,
    object_: dict[str, Any],
    before: str,
    after: str,
    indent: int | str | None,
    fence: str,
    times: int,
    reverse: bool,
) -> None:
    expected = parse(json.dumps(object_))
    items = reversed(object_.items()) if reverse else object_.items()
    body = fence + json.dumps(dict(items), indent=indent) + ("\n" + fence[:3] if fence else "")
    assert parse(f"{before}\n{(body + chr(10)) * times}{after}") == expected


@given(st.sampled_from(OBJECTS), st.sampled_from([None, 2]), st.sampled_from(["> ", ">", " > "]))
def test_a_quoted_object_vanishes(object_: dict[str, Any], indent: int | None, mark: str) -> None:
    lines = json.dumps(object_, indent=indent).splitlines()
    quoted = "\n".join(mark + line for line in lines)
    assert said(parse(quoted)) == "reply_empty"
    assert parse(f"{quoted}\n{YES}") == parse(YES)


@given(st.sampled_from(OBJECTS), st.sampled_from(["[%s]", '{"x": %s}', "[[%s]]", '{"x": [%s, 1]}']))
def test_a_nested_object_is_none(object_: dict[str, Any], around: str) -> None:
    nested = around % json.dumps(object_)
    assert said(parse(nested)) == "reply_invalid"
    assert parse(f"{nested}\n{YES}") == parse(YES)


@pytest.mark.parametrize("indent", [None, 1])
def test_no_cut_of_a_reply_is_a_verdict(indent: int | None) -> None:
    whole = json.dumps(reply(), indent=indent)
    for end in range(len(whole)):
        assert parse(whole[:end]).outcome == "ungraded"
        assert parse("So: " + whole[:end]).outcome == "ungraded"


def test_whether_an_object_parses_does_not_depend_on_how_deep_the_caller_stands() -> None:
    def nested(levels: int) -> str:
        return written(extra=...)[:-1] + ', "extra": ' + "[" * levels + "]" * levels + "}"

    def from_depth(depth: int, text: str) -> str:
        return said(parse(text)) if depth == 0 else from_depth(depth - 1, text)

    for depth in (0, 300):
        assert from_depth(depth, nested(MAX_DEPTH - 1)) == "success"
        assert from_depth(depth, nested(MAX_DEPTH)) == "reply_invalid"
        assert from_depth(depth, nested(100_000)) == "reply_invalid"


# --- linear cost ------------------------------------------------------------------------------

# Each takes a size and gives a text of about that many characters.
HOSTILE: Final[dict[str, Callable[[int], str]]] = {
    "spaces after a grade": lambda n: "GRADE:" + " " * n + "x",
    "spaces after the word": lambda n: "GRADE: success" + " " * n + "x",
    "marks": lambda n: "*_" * (n // 4) + "GRADE: success" + "*_" * (n // 4),
    "marks without a grade": lambda n: "*" * n,
    "grades": lambda n: "GRADE:" * (n // 6),
    "grade lines": lambda n: "GRADE: success\n" * (n // 15),
    "brackets": lambda n: "[" * n,
    "braces": lambda n: "{" * n,
    "prose brackets": lambda n: "[ x " * (n // 4),
    "open objects": lambda n: '{"a":' * (n // 5),
    "open and shut": lambda n: "[]" * (n // 2),
    "crossed brackets": lambda n: "[}" * (n // 4) + "{]" * (n // 4),
    "mixed openers": lambda n: "[{" * (n // 2),
    "nested values": lambda n: '[{"a":' * (n // 8) + "}]" * (n // 8),
    "objects": lambda n: '{"verdict": "success"} ' * (n // 23),
    "objects in prose brackets": lambda n: '[ x {"a":1} ' * (n // 12),
    "open quotes": lambda n: '{"a" "b ' * (n // 8),
    "quotes": lambda n: '{"' + '\\"' * (n // 2),
    "unclosed strings": lambda n: '{"a\n' * (n // 4),
    "fences": lambda n: "```\n" * (n // 4),
    "fences with objects": lambda n: '```json\n{"verdict": "x"\n' * (n // 25),
    "back-ticks": lambda n: "`" * n,
    "blank start": lambda n: " \u200b" * (n // 2) + "x",
    "think tags": lambda n: "<think>" * (n // 7),
    "think pairs": lambda n: "<think></think>" * (n // 15),
    "block quotes": lambda n: "> a\n" * (n // 4),
    "indented lines": lambda n: " \n" * (n // 2),
    "a long number": lambda n: '{"verdict": "success", "n": ' + "1" * n + "}",
    "a long confidence": lambda n: '{"verdict": "success", "confidence": 0.' + "1" * n + "}",
    "a long exponent": lambda n: '{"verdict": "success", "confidence": 1e' + "9" * n + "}",
    "many keys": lambda n: "{" + ",".join(f'"{i}":1' for i in range(n // 9)) + ', "verdict": 1}',
    "many criteria": lambda n: written(criteria=[{"id": "at_goal", "met": "yes"}] * (n // 32)),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_megabyte_of_anything_is_read_to_its_end(kind: str) -> None:
    # Quadratic work on this many characters would outlast the test's timeout by far.
    assert _is_listed(parse(HOSTILE[kind](1_000_000)))


@pytest.mark.parametrize("kind", HOSTILE)
def test_twice_the_text_takes_at_most_twice_the_steps(kind: str) -> None:
    make = HOSTILE[kind]
    assert _steps(make(20_000)) < 2.2 * _steps(make(10_000)) + 100


def _steps(text: str) -> int:
    """Count the calls, of Python and C functions, that reading a text takes."""
    steps = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal steps
        steps += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        parse(text, rubric=None, token=None)
    finally:
        sys.setprofile(before)
    return steps
