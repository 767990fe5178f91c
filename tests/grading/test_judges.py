"""Which judge a trial gets."""

from __future__ import annotations

import pytest

from grader_service.errors import InputError
from grader_service.grading.judges import Judges
from grader_service.judging.judge import JudgeConfig
from grader_service.providers.base import ProviderConfig


def config(name: str) -> JudgeConfig:
    return JudgeConfig(name, ProviderConfig(kind="openai", model="m", base_url=None, api_key="k"))


JUDGES = Judges({"fast": config("fast"), "careful": config("careful")}, "fast")


def test_a_trial_that_names_no_judge_gets_the_default() -> None:
    assert JUDGES.resolve(None) == config("fast")


def test_a_trial_gets_the_judge_that_it_names() -> None:
    assert JUDGES.resolve("careful") == config("careful")


def test_a_misspelt_judge_is_refused_with_the_near_one() -> None:
    with pytest.raises(InputError) as caught:
        JUDGES.resolve("carefull")
    assert "'careful'" in str(caught.value.fix)


def test_without_any_judge_everything_is_taken_and_waits() -> None:
    nobody = Judges({}, None)
    assert nobody.resolve(None) is None
    assert nobody.resolve("careful") is None
    assert nobody.claimable() == []


def test_a_worker_takes_rows_of_its_judges_and_of_no_judge_in_particular() -> None:
    assert JUDGES.claimable() == ["fast", "careful", ""]
