"""A rubric that is wrong is refused with the file and line; a right one has one identity."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader_service.errors import RubricError
from grader_service.judging.rubric import (
    DEFAULT_BUNDLE,
    DEFAULT_FRAMES,
    library,
    library_rubric,
    load_rubric,
    resolve_rubric,
    rubric_from_json,
)
from grader_service.judging.rubric import Rubric as RubricModel
from grader_service.records.canonical import digest_of

GOOD = """\
id: lab/place
title: Placed
expectation: The cube is in the square.
criteria:
  - {id: in_goal, text: "The cube lies in the square."}
  - {id: intact, text: "Nothing fell.", required: false}
"""


def _refusal(text: str, name: str = "mine.yaml") -> str:
    with pytest.raises(RubricError) as caught:
        load_rubric(text, name=name)
    assert caught.value.fix
    return caught.value.message


def test_a_yaml_rubric_is_read_with_its_defaults() -> None:
    rubric = load_rubric(GOOD, name="mine.yaml")
    assert rubric.to_dict() == {
        "id": "lab/place",
        "kind": "frames",
        "title": "Placed",
        "expectation": "The cube is in the square.",
        "criteria": [
            {"id": "in_goal", "text": "The cube lies in the square.", "required": True},
            {"id": "intact", "text": "Nothing fell.", "required": False},
        ],
        "decision": "all_required",
        "frames": {"max_cameras": 4, "long_edge": 768},
        "failure_modes": [],
        "holistic": False,
    }
    assert [criterion.id for criterion in rubric.required] == ["in_goal"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GOOD + "titel: x\n", "mine.yaml:7: titel: unknown key"),
        (GOOD.replace('text: "N', 'txt: "N'), "mine.yaml:6: criteria.1.txt: unknown key"),
        (GOOD.replace("id: intact, ", ""), "mine.yaml:6: criteria.1: the key 'id' is missing"),
        (GOOD.replace("intact", "in_goal"), "mine.yaml:6: criteria.1.id: the id 'in_goal' stands"),
        (GOOD + "title: again\n", "mine.yaml:7: the key 'title' stands twice"),
        (GOOD.replace("intact,", "intact, id: b,"), "mine.yaml:6: the key 'id' stands twice"),
        (GOOD.replace("Placed", '"  "'), "mine.yaml:2: title: empty"),
        (GOOD.replace('"Nothing fell."', '""'), "mine.yaml:6: criteria.1.text: empty"),
        (GOOD.replace('"Nothing fell."', "no"), "mine.yaml:6: criteria.1.text: not a text"),
        (GOOD.replace("false", "maybe"), "mine.yaml:6: criteria.1.required: "),
        (GOOD.replace("in_goal", "in goal"), "mine.yaml:5: criteria.0.id: "),
        (GOOD + "kind: video\n", "mine.yaml:7: kind: Input should be 'frames' or 'bundle'"),
        (GOOD + "decision: most\n", "mine.yaml:7: decision: neither all_required nor"),
        (GOOD + "decision: {at_leats: 1}\n", "mine.yaml:7: decision: neither all_required nor"),
        (GOOD + "decision: {at_least: 2}\n", "mine.yaml:7: decision.at_least: at_least is from 1"),
        (GOOD + "decision: {at_least: 0}\n", "mine.yaml:7: decision.at_least: at_least is from 1"),
        (GOOD + "decision: {at_least: true}\n", "mine.yaml:7: decision: neither all_required nor"),
        (GOOD + "frames:\n  long_edge: 99999\n", "mine.yaml:8: frames.long_edge: "),
        (GOOD + "frames: {max_cameras: 0}\n", "mine.yaml:7: frames.max_cameras: "),
        (GOOD + "failure_modes: [ok, '']\n", "mine.yaml:7: failure_modes.1: empty"),
        ("id: a\ncriteria:\n- {id: c, text: t, required: false}\n", "mine.yaml:2: criteria: no "),
        ("id: a\ncriteria: []\n", "mine.yaml:2: criteria: no criterion is required"),
        ("id: a\ncriteria: none\n", "mine.yaml:2: criteria: not a list"),
        ("criteria:\n- {id: c, text: t}\n", "mine.yaml:1: the key 'id' is missing"),
        ("", "mine.yaml:1: not a mapping of keys to values"),
        ("only words", "mine.yaml:1: not a mapping of keys to values"),
        ("id: a\nid: [b\n", "mine.yaml:3: expected ',' or ']'"),
        ("id: a\n---\nid: b\n", "mine.yaml:2: but found another document"),
        ("id: a\ntitle: \x07\n", "mine.yaml:2: not YAML"),
        ("id: a\ntitle: &t x\nexpectation: *t\n", "mine.yaml:3: anchors and aliases are not read"),
        ("id: a\ntitle: !!python/object:os.system x\n", "mine.yaml:2: the tag "),
        ("id: a\n? [k]\n: v\n", "mine.yaml:2: a key is a plain word"),
        ("id: !!int x\n", "mine.yaml:1: 'x' is no int"),
        ("[" * 5000, "mine.yaml:1: nested too deeply"),
        ("x" * 200_000, "mine.yaml: too long"),
        (GOOD + f"failure_modes: [{'x' * 40_000}]\n", "mine.yaml:1: longer than 32000"),
    ],
)
def test_what_is_wrong_with_a_file_is_named_with_its_line(text: str, expected: str) -> None:
    assert expected in _refusal(text)


def test_every_wrong_line_is_named_at_once() -> None:
    text = GOOD.replace('"Nothing fell."', '""') + "titel: x\n"
    assert [line.split(" ")[0] for line in _refusal(text).splitlines()] == [
        "mine.yaml:6:",
        "mine.yaml:7:",
    ]


def test_words_that_yaml_would_turn_into_dates_stay_words() -> None:
    assert load_rubric(GOOD.replace("Placed", "2026-01-02"), name="x.yaml").title == "2026-01-02"


@pytest.mark.parametrize("name", ["task.txt", "TASK.MD"])
def test_a_text_file_is_a_free_text_rubric_with_one_criterion(name: str) -> None:
    rubric = load_rubric("\ufeffThe drawer is shut.\r\n", name=name)
    assert rubric.holistic
    assert rubric.expectation == "The drawer is shut."
    assert [criterion.text for criterion in rubric.criteria] == ["The drawer is shut."]
    assert rubric == resolve_rubric("The drawer is shut.")
    assert load_rubric("It\r\nis so.", name=name) == load_rubric("It\nis so.", name=name)


@pytest.mark.parametrize("text", ["", " \n", "\ufeff"])
def test_an_empty_text_is_no_rubric(text: str) -> None:
    assert _refusal(text, "task.txt") == "task.txt:1: the rubric is empty"


def test_a_text_that_no_prompt_could_hold_is_no_rubric() -> None:
    assert "longer than" in _refusal("word " * 10_000, "task.txt")


def test_free_text_is_named_after_its_content_and_can_be_for_a_bundle() -> None:
    frames, bundle = (
        RubricModel.from_text("It is so.", kind=kind) for kind in ("frames", "bundle")
    )
    assert frames.id == bundle.id
    assert frames.id != RubricModel.from_text("It is not so.").id
    assert frames.id.startswith("text/")
    assert (frames.kind, bundle.kind) == ("frames", "bundle")
    assert frames.digest != bundle.digest


def test_a_json_rubric_may_leave_its_id_out_and_is_then_named_after_its_content() -> None:
    body = {"criteria": [{"id": "c", "text": "t"}], "decision": {"at_least": 1}}
    rubric = rubric_from_json(body)
    assert rubric.id.startswith("inline/")
    assert rubric == rubric_from_json(body)
    assert rubric.id != rubric_from_json(body | {"kind": "bundle"}).id
    assert rubric_from_json(body, kind="bundle").kind == "bundle"
    assert rubric_from_json(body | {"kind": "frames"}, kind="bundle").kind == "frames"


def test_a_json_object_with_a_text_alone_is_free_text() -> None:
    assert rubric_from_json({"text": "It is so."}) == RubricModel.from_text("It is so.")
    assert rubric_from_json({"text": "It is so.", "kind": "bundle"}).kind == "bundle"
    assert rubric_from_json({"text": "It is so."}, kind="bundle").kind == "bundle"


@pytest.mark.parametrize(
    "value",
    [
        None,
        3,
        True,
        ["robot/stack"],
        {},
        {"text": ""},
        {"text": "a b", "kind": "video"},
        {"text": "a b", "more": 1},
        {"criteria": {"id": "c"}},
        {"criteria": [{"id": "c", "text": "t"}], "holistic": "yes"},
        {"criteria": [{"id": "c", "text": "t"}, {"id": "d", "text": "t"}], "holistic": True},
        {"criteria": [{"id": "c", "text": "\ud800"}]},
    ],
)
def test_json_that_is_no_rubric_is_refused(value: object) -> None:
    with pytest.raises(RubricError):
        rubric_from_json(value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["id", "criteria", "text", "decision", "frames", "kind"])
                | st.text(max_size=3),
                inner,
                max_size=6,
            )
        ),
        max_leaves=12,
    )
)
def test_any_json_value_is_a_rubric_or_is_refused_by_name(value: object) -> None:
    try:
        rubric = rubric_from_json(value)
    except RubricError:
        return
    assert rubric_from_json(rubric.to_dict()).digest == rubric.digest


@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_any_text_in_a_yaml_file_is_a_rubric_or_is_refused_by_name(text: str) -> None:
    with pytest.raises(RubricError, match=r"^x\.yaml"):
        load_rubric(GOOD.replace("Placed", "a: b: c") + text, name="x.yaml")


def test_the_digest_is_of_the_canonical_form_and_ignores_how_it_was_written() -> None:
    rubric = load_rubric(GOOD, name="a.yaml")
    again = rubric_from_json(dict(reversed(list(json.loads(json.dumps(rubric.to_dict())).items()))))
    assert rubric.digest == again.digest == digest_of(rubric.to_dict())
    assert rubric == again
    assert load_rubric(GOOD.replace("Nothing", "No thing"), name="a.yaml").digest != rubric.digest


def test_a_rubric_cant_be_changed() -> None:
    rubric = load_rubric(GOOD, name="a.yaml")
    with pytest.raises(ValueError, match="frozen"):
        rubric.title = "other"  # type: ignore[misc]


def test_a_reference_is_an_id_or_a_sentence_and_a_near_miss_names_what_was_meant() -> None:
    assert resolve_rubric(" robot/stack\n") == library_rubric("robot/stack")
    assert resolve_rubric("robot/stack it").holistic
    with pytest.raises(RubricError, match="did you mean robot/place-in-goal") as caught:
        resolve_rubric("robot/place-in-gaol")
    assert "autograder rubric list" in str(caught.value)
    with pytest.raises(RubricError, match="did you mean robot/stack"):
        resolve_rubric("stack")
    with pytest.raises(RubricError, match=r"there is no rubric 'qqqq'\n"):
        resolve_rubric("qqqq")


# --- the library -------------------------------------------------------------------------------


def test_the_library_holds_the_tasks_that_it_promises() -> None:
    names = "task-done place-in-goal place-in-container stack open-close push-to-goal pour fold"
    robot = {f"robot/{name}" for name in [*names.split(), "hand-over"]}
    a320 = {f"a320/{name}" for name in ("diagnosis", "procedure-reasoning", "report")}
    assert set(library()) == robot | a320
    assert library()[DEFAULT_FRAMES].kind == "frames"
    assert library()[DEFAULT_BUNDLE].kind == "bundle"


@pytest.mark.parametrize("rubric_id", sorted(library()))
def test_a_person_could_grade_by_each_rubric_of_the_library(rubric_id: str) -> None:
    rubric = library()[rubric_id]
    assert rubric.kind == ("frames" if rubric_id.startswith("robot/") else "bundle")
    assert "other" in rubric.failure_modes
    assert 1 <= len(rubric.required) <= 3
    for criterion in rubric.required:
        assert "Unclear if" in criterion.text, "says when to withhold"
    if rubric.kind == "frames":
        assert "LAST" in rubric.criteria[0].text
        assert rubric.criteria[0].id in ("at_goal", "done")


@pytest.mark.parametrize(
    ("rubric_id", "tolerance", "released"),
    [
        ("robot/place-in-goal", "centre of its footprint lies inside", True),
        ("robot/place-in-container", "below its rim", True),
        ("robot/stack", "within 2 cm", True),
        ("robot/push-to-goal", "whole footprint", False),
        ("robot/open-close", "at most 0.8 cm", False),
    ],
)
def test_the_rubrics_of_the_sample_trials_state_the_tolerance(
    rubric_id: str, tolerance: str, released: bool
) -> None:
    rubric = library()[rubric_id]
    assert tolerance in rubric.criteria[0].text
    assert [criterion.id for criterion in rubric.criteria] == ["at_goal", "released"][
        : 1 + released
    ]
