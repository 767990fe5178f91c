"""Reading A320 trajectories, and appending a verdict to them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from grader_service.errors import TrajectoryError
from grader_service.records.trajectory import (
    MAX_DEPTH,
    outline,
    parse_trajectory,
    with_judgement,
)

META = b'{"type": "meta", "versions": {"trajectory_schema": "1"}}\n'
SETUP = b'{"type": "setup", "sim_time": 1.5}\n'
FINAL = b'{"type": "final", "reason": "agent_done"}\n'


def kinds(data: bytes) -> list[str]:
    return [record["type"] for record in parse_trajectory(data)]


def nested(depth: int) -> bytes:
    return b'{"type": "x", "v": ' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}\n"


def test_each_line_is_one_record() -> None:
    assert parse_trajectory(META + SETUP)[1] == {"type": "setup", "sim_time": 1.5}


def test_crlf_blank_lines_and_a_missing_last_lf_change_nothing() -> None:
    plain = parse_trajectory(META + SETUP + FINAL)
    assert parse_trajectory((META + SETUP + FINAL).replace(b"\n", b"\r\n")) == plain
    assert parse_trajectory(b"\n \t\n" + META + b"\r\n" + SETUP + FINAL + b"\n\n") == plain
    assert parse_trajectory((META + SETUP + FINAL).rstrip()) == plain


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085"])
def test_line_separators_inside_strings_do_not_split_a_line(separator: str) -> None:
    line = json.dumps({"type": "note", "text": f"a{separator}b"}, ensure_ascii=False)
    assert parse_trajectory(META + line.encode() + b"\n")[1]["text"] == f"a{separator}b"


@pytest.mark.parametrize("text", ["é", "发", "🛩"])
def test_a_last_line_cut_anywhere_is_dropped(text: str) -> None:
    last = json.dumps({"type": "final", "text": text}, ensure_ascii=False).encode()
    for cut in range(len(last)):
        assert kinds(META + SETUP + last[:cut]) == ["meta", "setup"]
    assert kinds(META + SETUP + last) == ["meta", "setup", "final"]


def test_a_dropped_last_line_may_be_followed_by_blank_lines() -> None:
    assert kinds(META + b'{"type": "fin\n\n \r\n') == ["meta"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"type": "setup", \n', "line 3 is not JSON"),
        (b'{"type": "setup", "text": "\xff"}\n', "line 3 is not UTF-8"),
        (b'{"type": "setup", "text": "\xed\xa0\x80"}\n', "line 3 is not UTF-8"),
        (b'{"type": "setup", "v": ' + b"7" * 5000 + b"}\n", "line 3 holds an integer"),
        (nested(MAX_DEPTH + 1), "line 3 is nested deeper"),
        (b"[" * 100_000 + b"\n", "line 3 is nested deeper"),
        (b'{"type":' * 100_000 + b"\n", "line 3 is nested deeper"),
        (b"\x00\x01\x02\n", "line 3 is not JSON"),
    ],
)
def test_an_unreadable_line_before_the_last_is_named(line: bytes, why: str) -> None:
    with pytest.raises(TrajectoryError, match=why) as caught:
        parse_trajectory(META + b"\n" + line + FINAL)
    assert caught.value.fix


@pytest.mark.parametrize("line", [b"7", b"null", b"[]", b'"meta"', b"{}", b'{"type": 1}'])
@pytest.mark.parametrize("after", [b"", FINAL])
def test_a_line_that_is_no_typed_object_is_corruption_wherever_it_stands(
    line: bytes, after: bytes
) -> None:
    with pytest.raises(TrajectoryError, match="line 2 is no JSON object"):
        parse_trajectory(META + line + b"\n" + after)


@pytest.mark.parametrize("twice", [META, SETUP, FINAL])
def test_two_runs_in_one_file_are_refused_with_the_line(twice: bytes) -> None:
    with pytest.raises(TrajectoryError, match="line 5 is a second"):
        parse_trajectory(META + SETUP + FINAL + b"\n" + twice)


@pytest.mark.parametrize("version", ['"2"', "1", "null", '"1.0"', "{}"])
def test_an_unknown_schema_version_is_refused_with_the_line(version: str) -> None:
    meta = f'{{"type": "meta", "versions": {{"trajectory_schema": {version}}}}}\n'.encode()
    with pytest.raises(TrajectoryError, match="line 2 has trajectory schema"):
        parse_trajectory(SETUP + meta + FINAL)


@pytest.mark.parametrize("meta", [b'{"type": "meta"}', b'{"type": "meta", "versions": {}}'])
def test_a_missing_schema_version_counts_as_the_known_one(meta: bytes) -> None:
    assert kinds(meta) == ["meta"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n \r\n",
        META[:-3],
        SETUP + FINAL,
        b"\xff\xfe\x00binary",
        bytes(range(256)).replace(b"\n", b""),
        b"[" * 100_000,
        b"7" * 5_000,
    ],
)
def test_a_file_without_meta_is_refused(data: bytes) -> None:
    with pytest.raises(TrajectoryError, match="no meta"):
        parse_trajectory(data)


def test_a_byte_order_mark_is_refused() -> None:
    with pytest.raises(TrajectoryError, match="line 1 is not JSON"):
        parse_trajectory(b"\xef\xbb\xbf" + META + FINAL)


def test_a_harness_error_needs_no_meta() -> None:
    assert kinds(b'{"type": "harness_error", "stage": "setup", "error": "E"}\n') == [
        "harness_error"
    ]


def test_records_of_unknown_types_are_kept_but_not_outlined() -> None:
    records = parse_trajectory(META + b'{"type": "novelty"}\n')
    assert records[1] == {"type": "novelty"}
    assert outline(records).meta == records[0]


def test_numbers_that_json_does_not_know_are_read() -> None:
    line = b'{"type": "x", "a": NaN, "b": -Infinity, "c": 1e999, "d": 1' + b"0" * 400 + b"}\n"
    record = parse_trajectory(META + line)[1]
    assert math.isnan(record["a"])
    assert record["b"] == -math.inf
    assert record["c"] == math.inf
    assert record["d"] == 10**400


def test_of_a_repeated_key_the_last_value_counts() -> None:
    assert parse_trajectory(META + b'{"type": "x", "a": 1, "a": 2}\n')[1]["a"] == 2


def test_nesting_up_to_the_limit_is_read_from_any_depth_of_calls() -> None:
    data = META + nested(MAX_DEPTH)

    def deep(frames: int) -> list[str]:
        return kinds(data) if frames == 0 else deep(frames - 1)

    assert deep(600) == ["meta", "x"]


def test_many_brackets_without_depth_are_read() -> None:
    assert kinds(META + b'{"type": "x", "v": [' + b"[], {}, " * 10_000 + b'"[[["]}\n')[1] == "x"


def test_an_outline_of_built_records_names_the_record() -> None:
    final = {"type": "final"}
    with pytest.raises(TrajectoryError, match="record 3 is a second final"):
        outline([{"type": "meta"}, final, final])


JUDGEMENT = {"outcome": "graded", "verdict": "success", "reason": None, "source": "llm_judge"}


def test_a_judgement_becomes_the_last_record() -> None:
    data = with_judgement(META + FINAL, {**JUDGEMENT, "receipt": "ab12"})
    assert data.startswith(META + FINAL)
    assert data.count(b"\n") == 3
    assert parse_trajectory(data)[-1] == {"type": "judgement", **JUDGEMENT, "receipt": "ab12"}


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        (META + FINAL.rstrip(), META + FINAL),
        (META + b'{"type": "fin', META),
        (META + b'{"type": "fin\n \r\n', META),
        (META + b'{"text": "\xf0\x9f', META),
        (META + b"\n", META + b"\n"),
        (b"", b""),
        (b'{"ty', b""),
    ],
)
def test_before_a_judgement_the_file_is_mended(data: bytes, kept: bytes) -> None:
    judged = with_judgement(data, JUDGEMENT)
    assert judged.startswith(kept)
    (line, end) = judged.removeprefix(kept).split(b"\n")
    assert json.loads(line) == {"type": "judgement", **JUDGEMENT}
    assert end == b""


def test_of_several_judgements_the_last_counts() -> None:
    data = META
    for verdict in ("success", "failure"):
        data = with_judgement(data, {**JUDGEMENT, "verdict": verdict})
    judgement = outline(parse_trajectory(data)).judgement
    assert judgement is not None
    assert judgement["verdict"] == "failure"


@pytest.mark.parametrize("note", ["gut — 好", "a\nb\u2028c", "\ud800"])
def test_text_of_a_judgement_stays_on_its_line(note: str) -> None:
    data = with_judgement(META, {**JUDGEMENT, "note": note})
    record: dict[str, Any] = parse_trajectory(data)[-1]
    assert record["note"] == note.replace("\ud800", "\ufffd")
    assert b"\\u" not in data


def test_a_judgement_can_not_change_its_type() -> None:
    assert kinds(with_judgement(META, {"type": "final"})) == ["meta", "judgement"]
