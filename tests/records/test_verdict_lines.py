"""A verdict comes back from its line, and its receipt with the digest that it had."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grader_service.errors import RecordError
from grader_service.records.canonical import digest_of
from grader_service.records.strict_json import MAX_DEPTH
from grader_service.records.verdict import Verdict
from grader_service.records.verdict_lines import read_verdict_line, verdict_line

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def verdict(receipt: dict[str, Any] | None) -> Verdict:
    return Verdict("v", "vlm", "graded", "success", None, "now", "a\nb", "judge", True, receipt)


@given(body=VALUES)
@example(body=1e20)
@example(body=2.0**53)
@example(body=2**53)
@example(body=-0.0)
@example(body=1e300)
@example(body=10**400)
@example(body="\ud800")
def test_a_receipt_has_its_digest_after_the_line_too(body: Any) -> None:
    receipt = {"reply": {"body": body}}
    read = read_verdict_line(verdict_line(verdict(receipt)), "line 1")
    assert read == verdict(receipt)
    assert read.receipt is not None
    assert digest_of(read.receipt) == digest_of(receipt)


def test_a_reply_of_any_depth_that_a_provider_may_send_is_read() -> None:
    body: Any = 1
    for _ in range(MAX_DEPTH - 1):
        body = [body]
    receipt = {"votes": [{"reply": {"body": body}}]}
    assert read_verdict_line(verdict_line(verdict(receipt)), "x").receipt == receipt


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b"[]", b"null", b'{"id": 1}', b'{"a": 1, "a": 2}', b"\xff", b"[" * 200, b"NaN"],
)
def test_a_line_that_is_no_verdict_is_named(line: bytes) -> None:
    with pytest.raises(RecordError, match=r"verdicts\.jsonl:3"):
        read_verdict_line(line, "verdicts.jsonl:3")
