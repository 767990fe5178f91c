"""One running service for all tests of the harness' plug-in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from grader_service.providers.stub import StubModel
from tests.plugins.harness.rig import SCRIPT
from tests.support.judges import judge_at
from tests.support.servers import start_redis
from tests.support.stack import Stack, running


@pytest.fixture(scope="session")
def model() -> Iterator[StubModel]:
    with StubModel() as stub:
        stub.script(SCRIPT)
        yield stub


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory, model: StubModel) -> Iterator[Stack]:
    home = tmp_path_factory.mktemp("service")
    with (
        start_redis(tmp_path_factory.mktemp("redis")) as redis,
        running(home, redis.url, {"main": judge_at(model.url)}) as service,
    ):
        yield service
