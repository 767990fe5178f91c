"""Servers that the contracts are checked on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.servers import S3Server, start_s3


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """An S3 server of this test process."""
    with start_s3() as server:
        yield server
