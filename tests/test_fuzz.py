"""The fuzz targets themselves: they pass on their seeds, and on a little of what fuzzing tries."""

from __future__ import annotations

import pytest

from fuzz.targets import TARGETS
from fuzz.trees import mutate


@pytest.mark.parametrize("name", TARGETS)
def test_a_reader_takes_or_refuses_each_of_its_seeds(name: str) -> None:
    seeds = list(TARGETS[name].seeds())
    assert len(seeds) > 3
    for seed in seeds:
        TARGETS[name].check(seed)


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.json])
def test_a_reader_takes_or_refuses_changed_seeds(name: str) -> None:
    target = TARGETS[name]
    tried = set()
    for number, seed in enumerate(target.seeds()):
        for turn in range(5):
            changed = mutate(seed, target.max_len, 1000 * number + turn)
            target.check(changed)
            tried.add(changed)
    assert len(tried) > 10


def test_mutations_are_repeatable() -> None:
    assert mutate(b'{"a": [1, 2]}', 100, 7) == mutate(b'{"a": [1, 2]}', 100, 7)
    assert len({mutate(b'{"a": [1, 2]}', 100, seed) for seed in range(50)}) > 20
