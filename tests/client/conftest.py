"""Real servers for the client: a whole service, and programs that are none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn

from grader_service.api.app import create_app
from grader_service.api.body import Limits
from grader_service.bootstrap import build_service
from grader_service.grading.service import Service
from grader_service.settings import Settings
from grader_service.storage.migrations import upgrade


@contextmanager
def serving(app: Callable[..., Any]) -> Iterator[str]:
    """Serve an ASGI application on a free port until the block ends; give its URL."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.005)
        host, port = server.servers[0].sockets[0].getsockname()
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service on SQLite without a judge: what is submitted waits."""
    service = build_service(Settings.load(home=tmp_path_factory.mktemp("home")))
    upgrade(service.database)
    yield service
    service.database.close()


@pytest.fixture(scope="module")
def service_url(service: Service) -> Iterator[str]:
    """Where that service answers."""
    limits = Limits(body_bytes=2_000_000, part_bytes=500_000, parts=12)
    with serving(create_app(service, limits)) as url:
        yield url
