"""Each clause of the reply grammar, on the text that it reads."""

from __future__ import annotations

import json

import pytest

from grader_service.judging.rubric import rubric_from_json
from grader_service.records.verdict import Decision, Finding
from tests.judging.replies import HOLISTIC, RUBRIC, TOKEN, parse, reply, said, written

YES = written()
NO = written(met="no,yes,yes", verdict="failure")


# --- what of the text counts ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>GRADE: failure\n</think>GRADE: success", "success"),
        ("<THINK>\nGRADE: failure\n</Think>\nGRADE: success", "success"),
        ("<think>a<think>b</think>\nGRADE: failure\n</think>\nGRADE: success", "success"),
        ("<think>a</think>\nGRADE: success\n<think>b\nGRADE: failure", "success"),
        ("<think>a<think>b</think>\nGRADE: success", "reply_invalid"),
        ("<think>\nGRADE: success", "reply_invalid"),
        (f"<think>{NO}</think>{YES}", "success"),
        (f"{YES}<think>{NO}", "success"),
        ("I think </think> and\nGRADE: success", "success"),
        ("<thinkpad>\nGRADE: success", "success"),
        ("> GRADE: failure\nGRADE: success", "success"),
        (">GRADE: failure\n  > GRADE: failure\n\u200b> GRADE: failure\nGRADE: success", "success"),
        ("GRADE: success\r\n> GRADE: failure\r\n", "success"),
        (f"> {NO}\n\u200b> {NO}\n{YES}", "success"),
        ("> GRADE: success\nso it says", "reply_invalid"),
        ("a > b\nGRADE: success", "success"),
    ],
)
def test_thinking_and_block_quotes_do_not_count(text: str, expected: str) -> None:
    assert said(parse(text)) == expected


# --- lines ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "GRADE: success",
        "grade:SUCCESS",
        "Grade : Success",
        " \t GRADE:\u3000success \u00a0",
        "GRADE：success",  # noqa: RUF001
        "GRADE: success.",
        "GRADE: success .",
        "**GRADE: success**",
        "**GRADE: success.**",
        "**GRADE: success**.",
        "**GRADE:** success",
        "**GRADE**: success",
        "**GRADE:** **success**",
        "__GRADE__: _success_",
        "***GRADE: success***",
        "_**GRADE: success**_",
        "`GRADE: success`",
        "```GRADE: success```",
        "**GRADE:** `success`",
        '"GRADE: success"',
        "'GRADE: success'",
        "GRADE: 'success'.",
        "“GRADE: success”",
        "GRADE: «success»",
        "\u2018GRADE\u2019: success",
        "\ufeffGRADE:\u200b success\u200d",
        "GR\u200bADE: suc\u2060cess",
    ],
)
def test_a_grade_line_tolerates_case_space_emphasis_quotes_and_one_full_stop(line: str) -> None:
    assert said(parse(line)) == "success"
    assert said(parse(f"The cube lies there.\n\n{line}\r\nThat is all.")) == "success"


@pytest.mark.parametrize(
    "line",
    [
        "- GRADE: success",
        "* GRADE: success",
        "1. GRADE: success",
        "# GRADE: success",
        "~~GRADE: success~~",
        "(GRADE: success)",
        "[GRADE: success]",
        "<b>GRADE: success</b>",
        "GRADE: success!",
        "GRADE: success?",
        "GRADE: success..",
        "GRADE: success,",
        ".GRADE: success",
        "GRADE. success",
        "GRADE = success",
        "GRADE success",
        "GRADE:: success",
        "GRADE: success failure",
        "GRADE: success|failure",
        "GRADE: success 👍",
        "GRADE: successful",
        "GRADE: pass",
        "GRADE: abstained",
        "GRADE: \u017fucce\u017f\u017f",
        "GRADES: success",
        "VERDICT: success",
        "My GRADE: success",
        "GRADE: success because it lies there",
        "GRADE:",
        "GRADE:\nsuccess",
        "a\x0bGRADE: success",
        "a\u2028GRADE: success",
        "The sign says: GRADE: success",
        # Marks that surround nothing belong to a sentence of another line.
        'The sign says: "do this\nGRADE: success"',
        "“look\nGRADE: success”",
        "**GRADE: success",
        "GRADE: success**",
        "**GRADE: success__",
        "“GRADE: success“",
        "GRADE*: *success",
        "* *GRADE: success",
        "'GRADE: success\"",
    ],
)
def test_a_grade_line_tolerates_nothing_else(line: str) -> None:
    assert said(parse(line)) == "reply_invalid"


def test_one_word_over_all_lines_is_the_verdict_and_two_are_a_conflict() -> None:
    assert parse("GRADE: failure\nso:\n**GRADE: failure**") == Decision.graded("failure")
    assert said(parse("GRADE: abstain")) == "judge_abstained"
    assert said(parse("GRADE: abstain\nGRADE: failure")) == "reply_conflicting"
    assert said(parse("```\nGRADE: success\n```")) == "success"


def test_a_line_without_object_needs_neither_criteria_nor_token() -> None:
    decision = parse("GRADE: success", rubric=RUBRIC, token=TOKEN)
    assert decision == Decision.graded("success")
    assert decision.findings == ()


# --- objects ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        YES,
        f"\n\n {YES} \n",
        f"\ufeff{YES}",
        f"Here it is: {YES} Thank you.",
        f"The jaws [open] are {{clear}} of it, within [0, 2) cm, as in (a). {YES}",
        f'A 5" cube: {YES}',
        f"[ x {{}} }} {YES}",
        f"I write {{ for a brace, and [ for another. {YES}",
        f"So }} and ] are closed. {YES} {{",
        f"```json\n{YES}\n```",
        f"```\n{json.dumps(reply(), indent=2)}\n```",
        f"~~~json\n{YES}\n~~~",
        f"``` json\r\n{YES}\r\n```\r\n",
        f"``````json\n{YES}\n``````",
        f"```json {YES}```",
        f"`{YES}`",
        f"  ```json\n  {YES}\n  ```",
        f"json\n{YES}",
        f"**{YES}**",
        f"{YES}\n{YES}",
        f"{YES}{json.dumps(reply(), indent=1, sort_keys=True)}",
        f"First ```json\n{YES}\n``` and again\n```\n{YES}\n```",
        f'{{"note": "no verdict here"}}\n{YES}',
        f'Broken: {{"verdict": "failure",}}\n{YES}',
        f'Broken:\n```\n{{"verdict": "failure"\n```\nMended:\n```\n{YES}\n```',
        f'Broken:\n ~~~\n{{"verdict": "failure"\n ~~~\nMended:\n {YES}',
        f'{YES}\n[{{"verdict": "failure"}}]',
        written(rationale='braces } ] { [ and "quotes" \\ and\n```\nGRADE: failure\n```'),
        written(extra={"verdict": "failure", "deep": [[["GRADE: failure"]]]}),
    ],
)
def test_an_object_is_found_bare_after_prose_and_in_a_fence(text: str) -> None:
    assert said(parse(text)) == "success"


@pytest.mark.parametrize(
    "text",
    [
        f"[{YES}]",
        f"[1, {YES}]",
        f"[{YES},]",
        f"[{YES}",
        f'{{"result": {YES}}}',
        f'Broken: {{"result": {YES},}}',
        f'Broken: {{"result": {YES}',
        f'Broken: {{"a": tru, "result": {YES}',
        f"Broken: {{'result': {YES}}}",
        f"See [what follows: {YES}]",
        json.dumps(YES),
        f"Result: {json.dumps(YES)}",
        YES.replace('"', "'"),
        YES.replace('"verdict"', '"Verdict"'),
        "{verdict: success}",
        '"verdict": "success"',
        YES[1:],
        YES[:-1],
        f"{{{YES}}}",
        YES.replace("0.8", "NaN"),
        YES.replace("0.8", "Infinity"),
        YES.replace("0.8", "-Infinity"),
        written(extra=...)[:-1] + ', "extra": NaN}',
        YES.replace("0.8", ".8"),
        YES.replace("0.8", "08"),
        YES.replace("}]", "},]"),
        YES[:-1] + ",}",
        YES[:-1] + ', "verdict": "success"}',
        YES.replace('"met": "yes"}', '"met": "yes", "met": "yes"}', 1),
        YES.replace("It lies", "It\nlies"),
        YES.replace("{", "{ // so\n", 1),
    ],
)
def test_what_stands_in_something_else_or_does_not_parse_is_no_object(text: str) -> None:
    assert said(parse(text)) == "reply_invalid"


BROKEN = '{"verdict": "failure",}'


@pytest.mark.parametrize(
    "broken",
    [
        BROKEN,
        f" \n{BROKEN}",
        f"\ufeff{BROKEN}",
        f"```json\n{BROKEN}\n```",
        f"~~~\n\n  {BROKEN}\n~~~",
        f"```json {BROKEN}```",
        f"`{BROKEN}`",
        f"<think>hm</think>\n{BROKEN}",
        f"> quoted\n{BROKEN}",
        '{"verdict": "failure"',
        "{'verdict': 'failure'}",
        "{",
    ],
)
def test_a_reply_that_begins_with_a_broken_object_is_invalid_whatever_follows(broken: str) -> None:
    assert said(parse(broken)) == "reply_invalid"
    assert said(parse(f"{broken}\nGRADE: success")) == "reply_invalid"
    assert said(parse(f"{broken}\n```\n{YES}\n```")) == "reply_invalid"


@pytest.mark.parametrize(
    "text",
    [
        f"So: {BROKEN}\nGRADE: success",
        '{"score": 0.9}\nGRADE: success',
        "[x] looked at it\nGRADE: success",
        '[{"verdict": "failure"}]\nGRADE: success',
    ],
)
def test_a_line_counts_where_there_is_no_object(text: str) -> None:
    assert said(parse(text)) == "success"


def test_a_line_inside_an_object_is_part_of_the_object() -> None:
    pretty = json.dumps(reply() | {"grade": "failure"}, indent=1)
    assert '\n "grade": "failure"\n' in pretty
    assert said(parse(pretty)) == "success"
    assert said(parse("so\n" * 100 + pretty + "\nGRADE: success")) == "success"
    assert said(parse("so\n" * 100 + pretty + "\nGRADE: failure")) == "reply_conflicting"
    assert said(parse(json.dumps(["GRADE: success"], indent=1))) == "reply_invalid"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (YES, NO),
        (YES, written(confidence=0.9)),
        (YES, YES.replace("0.8", "0.80")),
        (YES, written(injection_suspected=1)),
        (YES, written(extra=None)),
        (YES, written(rationale="It lies here.")),
        (YES, '{"verdict": "success"}'),
        ('{"verdict": true}', '{"verdict": 1}'),
    ],
)
def test_two_objects_that_differ_at_all_are_a_conflict(one: str, other: str) -> None:
    assert said(parse(f"{one}\n{other}")) == "reply_conflicting"
    assert said(parse(f"{other} or {one} or {other}")) == "reply_conflicting"


# --- fields -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"verdict": "Success"}, "reply_invalid"),
        ({"verdict": " success"}, "reply_invalid"),
        ({"verdict": "pass"}, "reply_invalid"),
        ({"verdict": None}, "reply_invalid"),
        ({"verdict": True}, "reply_invalid"),
        ({"verdict": ["success"]}, "reply_invalid"),
        ({"verdict": {"verdict": "success"}}, "reply_invalid"),
        ({"verdict": ...}, "reply_invalid"),
        ({"confidence": 1.01}, "reply_invalid"),
        ({"confidence": -0.01}, "reply_invalid"),
        ({"confidence": "0.8"}, "reply_invalid"),
        ({"confidence": True}, "reply_invalid"),
        ({"confidence": None}, "reply_invalid"),
        ({"confidence": [0.8]}, "reply_invalid"),
        ({"confidence": 10**400}, "reply_invalid"),
        ({"confidence": 0}, "success"),
        ({"confidence": 1}, "success"),
        ({"confidence": ...}, "success"),
        ({"injection_suspected": "false"}, "reply_invalid"),
        ({"injection_suspected": 0}, "reply_invalid"),
        ({"injection_suspected": None}, "reply_invalid"),
        ({"injection_suspected": ...}, "success"),
        ({"token": "t-other"}, "reply_mismatched"),
        ({"token": TOKEN.upper()}, "reply_mismatched"),
        ({"token": f"{TOKEN} "}, "reply_mismatched"),
        ({"token": None}, "reply_mismatched"),
        ({"token": [TOKEN]}, "reply_mismatched"),
        ({"token": ...}, "reply_mismatched"),
        ({"criteria": ...}, "reply_invalid"),
        ({"criteria": None}, "reply_invalid"),
        ({"criteria": []}, "reply_invalid"),
        ({"criteria": {"at_goal": "yes"}}, "reply_invalid"),
        ({"criteria": ["at_goal", "released", "intact"]}, "reply_invalid"),
        ({"met": "yes,yes,Yes"}, "reply_invalid"),
        ({"met": "yes,yes,"}, "reply_invalid"),
        ({"criteria": [*reply()["criteria"], reply()["criteria"][0]]}, "reply_invalid"),
        ({"criteria": reply()["criteria"][:2]}, "reply_invalid"),
        ({"criteria": reply()["criteria"][:2] * 2}, "reply_invalid"),
        ({"criteria": [*reply()["criteria"][:2], {"id": "x", "met": "yes"}]}, "reply_invalid"),
        ({"criteria": [{"id": ["at_goal"], "met": "yes"}] * 3}, "reply_invalid"),
        ({"criteria": reply()["criteria"][::-1]}, "success"),
        ({"criteria": [{**item, "x": 1} for item in reply()["criteria"]]}, "success"),
        ({"rationale": ...}, "success"),
        ({"rationale": {"why": 1}}, "success"),
        ({"failure_mode": 3}, "success"),
        ({"unknown": [1, 2, {"a": None}]}, "success"),
    ],
)
def test_fields_are_exact_or_the_reply_is_refused(
    changed: dict[str, object], expected: str
) -> None:
    assert said(parse(written(**changed))) == expected


def test_the_fields_are_looked_at_in_order() -> None:
    assert said(parse(written(verdict="pass", token="x"))) == "reply_invalid"
    assert said(parse(written(confidence=2, token="x"))) == "reply_invalid"
    assert said(parse(written(token="x", criteria=[]))) == "reply_mismatched"
    assert said(parse(written(token="x", verdict="failure"))) == "reply_mismatched"
    assert said(parse(written(criteria=[]) + "\nGRADE: failure")) == "reply_invalid"
    assert said(parse(written(verdict="failure", injection_suspected=True))) == "reply_conflicting"


def test_without_a_given_token_any_or_none_is_taken() -> None:
    assert said(parse(written(token="whatever"), token=None)) == "success"
    assert said(parse(written(token=...), token=None)) == "success"
    assert said(parse(written(token=""), token="")) == "success"
    assert said(parse(written(token=...), token="")) == "reply_mismatched"


@pytest.mark.parametrize("rubric", [None, HOLISTIC])
def test_without_criteria_the_models_verdict_is_the_decision(rubric: None) -> None:
    for criteria in (..., None, "none", [{"id": "x", "met": "maybe"}]):
        assert said(parse(written(criteria=criteria), rubric=rubric)) == "success"
    decision = parse(written(met="no,no,no", verdict="success"), rubric=rubric)
    assert (said(decision), decision.findings) == ("success", ())
    assert said(parse(written(verdict="abstain"), rubric=rubric)) == "judge_abstained"


# --- contradictions and outcomes --------------------------------------------------------------


@pytest.mark.parametrize(
    ("met", "verdict", "expected"),
    [
        ("yes,yes,no", "success", "success"),
        ("yes,yes,yes", "failure", "reply_conflicting"),
        ("yes,yes,yes", "abstain", "judge_abstained"),
        ("no,yes,yes", "failure", "failure"),
        ("no,unclear,yes", "failure", "failure"),
        ("no,yes,yes", "success", "reply_conflicting"),
        ("no,yes,yes", "abstain", "judge_abstained"),
        ("unclear,yes,yes", "success", "criteria_unclear"),
        ("unclear,yes,yes", "failure", "criteria_unclear"),
        ("unclear,yes,yes", "abstain", "criteria_unclear"),
        ("yes,yes,unclear", "success", "success"),
    ],
)
def test_code_decides_and_a_model_that_says_the_opposite_is_a_conflict(
    met: str, verdict: str, expected: str
) -> None:
    decision = parse(written(met=met, verdict=verdict))
    assert said(decision) == expected
    assert [finding.met for finding in decision.findings] == met.split(",")


def test_the_rubrics_rule_decides_not_the_count_of_criteria() -> None:
    one = rubric_from_json(RUBRIC.to_dict() | {"decision": {"at_least": 1}})
    assert said(parse(written(met="no,yes,no"), rubric=one)) == "success"
    assert said(parse(written(met="no,no,yes", verdict="failure"), rubric=one)) == "failure"
    assert said(parse(written(met="no,unclear,yes"), rubric=one)) == "criteria_unclear"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{YES}\nGRADE: success", "success"),
        (f"GRADE: success\n{YES}\nGRADE: success", "success"),
        (f"{YES}\nGRADE: failure", "reply_conflicting"),
        (f"{YES}\nGRADE: abstain", "reply_conflicting"),
        (f"GRADE: failure\n{YES}", "reply_conflicting"),
        (f"{YES}\nGRADE: success\nGRADE: failure", "reply_conflicting"),
        (f"{YES} GRADE: failure", "success"),
        (written(met="unclear,yes,yes") + "\nGRADE: success", "criteria_unclear"),
        (written(met="unclear,yes,yes") + "\nGRADE: abstain", "reply_conflicting"),
    ],
)
def test_a_line_beside_an_object_has_to_agree_with_it(text: str, expected: str) -> None:
    assert said(parse(text)) == expected


@pytest.mark.parametrize(
    "fields", [{}, {"met": "unclear,yes,yes"}, {"verdict": "abstain"}, {"met": "no,yes,yes"}]
)
def test_suspected_injection_withholds_every_verdict(fields: dict[str, str]) -> None:
    if fields.get("met") == "no,yes,yes":
        fields = fields | {"verdict": "failure"}
    decision = parse(written(injection_suspected=True, **fields))
    assert said(decision) == "injection_suspected"
    assert decision.injection_suspected


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"met": "unclear,yes,yes"},
        {"verdict": "abstain"},
        {"injection_suspected": True},
        {"verdict": "failure"},
    ],
)
def test_what_the_judge_said_is_kept_whatever_it_comes_to(fields: dict[str, object]) -> None:
    decision = parse(written(failure_mode="dropped", **fields))
    assert [finding.id for finding in decision.findings] == ["at_goal", "released", "intact"]
    assert decision.findings[1] == Finding("released", "saw released", "yes")
    assert decision.rationale == "It lies there."
    assert decision.confidence == 0.8
    assert decision.failure_mode == "dropped"


def test_findings_come_in_the_order_of_the_rubric() -> None:
    decision = parse(written(criteria=reply()["criteria"][::-1]))
    assert [finding.id for finding in decision.findings] == ["at_goal", "released", "intact"]


def test_informative_fields_are_kept_only_if_they_are_what_they_should_be() -> None:
    entries = [{"id": item["id"], "met": "yes", "evidence": 3} for item in reply()["criteria"]]
    decision = parse(written(criteria=entries, rationale=["x"], failure_mode="exploded"))
    assert said(decision) == "success"
    assert decision.rationale is None
    assert decision.failure_mode is None
    assert {finding.evidence for finding in decision.findings} == {""}
    assert parse(written(failure_mode="dropped"), rubric=HOLISTIC).failure_mode is None


def test_kept_texts_can_be_stored_as_utf8() -> None:
    lone = written(rationale="\ud83d!").replace("saw intact", "saw \\udc00")
    decision = parse(lone)
    assert decision.rationale == "\ufffd!"
    assert decision.findings[2].evidence == "saw \ufffd"
