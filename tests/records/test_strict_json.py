from __future__ import annotations

import pytest

from grader_service.records.strict_json import MAX_DEPTH, strict_loads


def test_json_is_read_as_it_stands() -> None:
    text = '{"a": [1, 2.5, null, true, "é"], "b": {}}'
    assert strict_loads(text.encode()) == {"a": [1, 2.5, None, True, "é"], "b": {}}


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": 1, "a": 1}',
        b'{"deep": [{"a": 1, "a": 2}]}',
        b'{"a": NaN}',
        b"[Infinity]",
        b"[-Infinity]",
        b"[1e999]",
        b"[" + b"9" * 5000 + b"]",
        b"[" * 200_000,
        b'{"a":' * 200_000 + b"1" + b"}" * 200_000,
        b'"\xff"',
        b"\xef\xbb\xbf{}",
        '{"a": 1}'.encode("utf-16"),
        b"{} {}",
        b"{'a': 1}",
        b"[1,]",
        b"",
    ],
    ids=lambda data: repr(data[:20]),
)
def test_what_is_not_json_is_refused_with_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"JSON|decode|delimiter|Expecting|data|key|digits|BOM"):
        strict_loads(data)


def test_nesting_is_refused_at_the_same_depth_wherever_it_is_read() -> None:
    assert strict_loads(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    with pytest.raises(ValueError, match="nested"):
        strict_loads(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1))
