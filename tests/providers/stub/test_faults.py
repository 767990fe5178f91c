from __future__ import annotations

import re

import pytest

from grader_service.providers.stub.faults import Fault, FaultError, RandomFaults


def test_a_fault_is_read_with_its_argument_and_options() -> None:
    fault = Fault.parse("first2:reject:store+text;as=detail;status=422")
    assert (fault.first, fault.name, fault.argument) == (2, "reject", "store+text")
    assert fault.options == {"as": "detail", "status": "422"}


@pytest.mark.parametrize("text", ["", "teapot", "99", "600", "429;ra", "first:500", "first2:"])
def test_text_that_names_no_fault_is_refused(text: str) -> None:
    with pytest.raises(FaultError):
        Fault.parse(text)


@pytest.mark.parametrize("spec", ["429", "429:often", "teapot:0.5", "max=x"])
def test_random_faults_that_are_none_are_refused(spec: str) -> None:
    with pytest.raises(FaultError, match=re.escape(spec)):
        RandomFaults(spec)


def picked(seed: int, keys: list[str]) -> dict[str, list[str | None]]:
    chance = RandomFaults("429;ra=1:0.2,reject:store:0.1,rst:0.1,max=2", seed)
    result: dict[str, list[str | None]] = {key: [] for key in keys}
    for key in keys * 10:
        fault = chance.pick(key)
        result[key].append(fault.name if fault else None)
    return result


def test_random_faults_follow_from_the_seed_in_any_order_of_calls() -> None:
    keys = [f"key-{number}" for number in range(200)]
    assert picked(1, keys) == picked(1, keys[::-1])
    assert picked(1, keys) != picked(2, keys)


def test_random_faults_have_their_share_and_their_most_per_key() -> None:
    result = picked(1, [f"key-{number}" for number in range(1000)])
    first = [turns[0] for turns in result.values()]
    assert first.count("429") == pytest.approx(200, abs=50)
    assert first.count("reject") == pytest.approx(100, abs=40)
    assert first.count("rst") == pytest.approx(100, abs=40)
    assert max(sum(turn is not None for turn in turns) for turns in result.values()) == 2


def test_no_spec_means_no_faults() -> None:
    assert not RandomFaults("")
