"""Writing a trial's files where some lie already."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader_service.client.folders import write_files
from grader_service.errors import ConflictError


def test_what_the_service_has_more_is_added_and_what_it_has_not_is_never_lost(
    tmp_path: Path,
) -> None:
    write_files(tmp_path, {"verdicts.jsonl": b"first\n", "manifest.json": b"1"})
    write_files(tmp_path, {"verdicts.jsonl": b"first\nsecond\n", "manifest.json": b"2"})
    assert (tmp_path / "manifest.json").read_bytes() == b"2"
    with pytest.raises(ConflictError, match="does not have: 1") as refused:
        write_files(tmp_path, {"verdicts.jsonl": b"first\n", "manifest.json": b"3"})
    assert refused.value.fix == "name another folder"
    assert (tmp_path / "verdicts.jsonl").read_bytes() == b"first\nsecond\n"
    assert (tmp_path / "manifest.json").read_bytes() == b"2"
