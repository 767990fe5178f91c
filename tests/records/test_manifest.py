"""The manifest says how to take the judgement off a trajectory again, whatever its end is like."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grader_service.records.canonical import digest
from grader_service.records.judged import judged_trajectory
from grader_service.records.manifest import build_manifest, submitted_trajectory
from grader_service.records.verdict import Verdict

META = b'{"type": "meta"}\n'
VERDICT = Verdict("v", "llm_judge", "graded", "success", None, "2026-01-01T00:00:00.000+00:00")
ENDS = st.one_of(
    st.binary(max_size=20),
    st.sampled_from([b"", b"{}", b"{}\n", b'{"type": "fin', b"\n \r\n", b'{"text": "\xf0\x9f']),
)


@given(data=st.builds(lambda *parts: b"".join(parts), st.just(META), ENDS, ENDS), judged=...)
@example(data=b"", judged=True)
@example(data=b'{"ty', judged=True)
def test_what_was_submitted_comes_back_byte_for_byte(data: bytes, judged: bool) -> None:
    exported = judged_trajectory(data, VERDICT if judged else None)
    manifest = build_manifest({"t": exported}, newest_receipt=None, trajectory=data)
    assert submitted_trajectory(exported, manifest["as_submitted"]) == data


def test_a_manifest_lists_the_digest_of_every_file() -> None:
    manifest = build_manifest({"b": b"2", "a": b"1"}, newest_receipt="f" * 64)
    assert manifest == {
        "schema": "manifest/1",
        "files": {"a": digest(b"1"), "b": digest(b"2")},
        "newest_receipt": "f" * 64,
        "as_submitted": None,
    }


@pytest.mark.parametrize("how", [None, [], {}, {"bytes": 99, "tail": ""}, {"bytes": 1, "tail": 1}])
def test_what_does_not_say_how_gives_nothing(how: object) -> None:
    assert submitted_trajectory(META, how) is None
