"""The prompt does not change by accident: every change is seen, and is a new version."""

from __future__ import annotations

import json

import pytest

from grader_service.judging.prompt import PROMPT_VERSION
from tests.golden.prompts.pin import HERE, VERSIONS, digests, pins


@pytest.mark.parametrize("name", ["frames.txt", "bundle.txt"])
def test_the_whole_text_that_a_judge_is_sent_is_the_pinned_one(name: str) -> None:
    assert pins()[name] == (HERE / name).read_text("utf-8")


def test_a_version_of_the_prompt_has_one_text_for_ever() -> None:
    versions = json.loads(VERSIONS.read_text("utf-8"))
    assert versions[PROMPT_VERSION] == digests()
    assert [*versions][-1] == PROMPT_VERSION
    texts = [json.dumps(texts, sort_keys=True) for texts in versions.values()]
    assert len(set(texts)) == len(texts)
