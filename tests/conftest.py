"""Hostile defaults: no key, no setting and no service of this machine reaches a test."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.support.servers import RedisServer, postgres_server, start_redis

# The width of whoever runs the tests is no width of a test.
os.environ.pop("COLUMNS", None)
for _name in list(os.environ):
    if _name.startswith(("AUTOGRADER_", "OPENAI_", "ANTHROPIC_")):
        del os.environ[_name]

# A shell that runs the tests in the background makes them, and what they start, deaf to Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says nothing on a busy machine. The rest is as Hypothesis has it: where
# CI is set, it draws the same examples each time.
hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of the tests' data."""
    return ROOT / "tests" / "data"


@pytest.fixture(scope="session")
def sample_trials() -> Path:
    """The folder of the 24 sample trials."""
    return ROOT / "examples" / "trials"


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A real Valkey of this test process."""
    with start_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """The URL of an empty Redis."""
    redis_server.flush()
    return redis_server.url


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a real PostgreSQL of this test process."""
    with postgres_server() as server:
        yield server.url
