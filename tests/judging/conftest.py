"""Judges over the real SDKs, a stub model for them to ask, and a trial to ask about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from grader_service.judging.evidence import Evidence
from grader_service.judging.judge import Judge, JudgeConfig
from grader_service.providers import build_provider
from grader_service.providers.base import ProviderConfig
from grader_service.providers.stub import StubModel
from grader_service.records.canonical import digest

JudgeOf = Callable[..., Judge]
Kind = Literal["openai", "openai-responses", "anthropic"]


@pytest.fixture
def model() -> Iterator[StubModel]:
    with StubModel() as stub:
        yield stub


@pytest.fixture
def judge_of(model: StubModel) -> Iterator[JudgeOf]:
    """Makes judges that ask the stub model; their connections are closed with the test."""
    made: list[Judge] = []

    def make(
        *, kind: Kind = "openai", name: str = "m", effort: str | None = None, **changes: Any
    ) -> Judge:
        provider = ProviderConfig(
            kind=kind, model=name, base_url=model.url, api_key="k", effort=effort
        )
        config = JudgeConfig("j", provider, **({"stub": True} | changes))
        made.append(Judge(config, build_provider(provider), b"secret"))
        return made[-1]

    yield make
    for judge in made:
        judge.provider.close()


@pytest.fixture
def trial(sample_trials: Path) -> list[Evidence]:
    """First and last frames of two cameras."""
    return [
        evidence(camera, phase, (sample_trials / "pad-01" / f"{name}_{camera}.jpg").read_bytes())
        for phase, name in (("last", "final"), ("first", "initial"))
        for camera in ("overhead", "front")
    ]


def evidence(camera: str, phase: str, data: bytes) -> Evidence:
    return Evidence(camera, phase, digest(data), data)
