"""`autograder serve`, `worker` and `migrate`: the processes of a service, one by one."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import sys
from contextlib import suppress
from types import FrameType
from typing import Annotated

import typer
import uvicorn

from grader_service.errors import SetupError
from grader_service.observability.logs import configure_logging
from grader_service.settings import Settings


def serve_command(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.")] = None,
) -> None:
    """Run the HTTP API. Settings come from AUTOGRADER_… variables.

    Example: AUTOGRADER_DATABASE_URL=postgresql+psycopg://… autograder serve --port 8400
    """
    settings = Settings.load()
    host, port = host or settings.host, settings.port if port is None else port
    if not settings.trusted_network:
        require_loopback(host)
    require_free(host, port)
    configure_logging()
    # After its graceful stop uvicorn sends itself the signal again.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server = _Server(
        uvicorn.Config(
            "grader_service.asgi:create",
            factory=True,
            host=host,
            port=port,
            log_config=None,
            access_log=False,
            # Requests that are being read when SIGTERM comes get this long.
            timeout_graceful_shutdown=10,
        )
    )
    with suppress(KeyboardInterrupt):
        server.run()
    if not server.started:
        raise typer.Exit(1)


class _Server(uvicorn.Server):
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop. Who follows a run is let go first: stopping would take all of its time."""
        from grader_service.api.events import let_followers_go

        let_followers_go()
        super().handle_exit(sig, frame)


def worker_command(
    concurrency: Annotated[
        int | None, typer.Option(help="Model calls at the same time in this process.")
    ] = None,
) -> None:
    """Run one worker process. AUTOGRADER_BROKER_URL says where Redis is.

    Example: AUTOGRADER_BROKER_URL=redis://127.0.0.1:6379/0 autograder worker --concurrency 32
    """
    settings = Settings.load()
    if settings.broker_url is None:
        raise SetupError(
            "a worker needs a broker",
            fix="set AUTOGRADER_BROKER_URL=redis://…, or use `autograder up`",
        )
    if concurrency is not None:
        os.environ["AUTOGRADER_CONCURRENCY"] = str(concurrency)
    arguments = worker_arguments(concurrency or settings.concurrency)
    os.execv(sys.executable, arguments)  # noqa: S606  (no shell: a list of our own words)


def worker_arguments(concurrency: int) -> list[str]:
    """Return the command line of a worker process.

    Threads, since a worker waits for models; gossip and mingle would only cost start-up time.
    """
    return [
        *(sys.executable, "-m", "celery", "--quiet", "-A", "workers.app", "worker"),
        *("--pool", "threads", "--concurrency", str(concurrency)),
        *("--without-gossip", "--without-mingle", "--loglevel", "WARNING"),
        # Nodes of one host need names of their own.
        *("--hostname", f"worker-{os.getpid()}@%h"),
    ]


def migrate_command() -> None:
    """Bring the database to the newest schema. Doing it twice does nothing.

    Example: AUTOGRADER_DATABASE_URL=postgresql+psycopg://… autograder migrate
    """
    from grader_service.storage.database import Database
    from grader_service.storage.migrations import upgrade

    database = Database(Settings.load().database)
    upgrade(database)
    database.close()
    typer.echo("the database is at the newest schema")


def require_loopback(host: str) -> None:
    """Refuse an address that other machines reach: there are no API keys yet."""
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise SetupError(
            f"{host} can be reached from other machines, and the API has no keys to check",
            fix="listen on 127.0.0.1 and put a proxy that authenticates in front; "
            "docs/scale-out.md has when `serve` may listen there all the same",
        )


def require_free(host: str, port: int) -> None:
    """Raise SetupError when a port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise SetupError(
                f"port {port} on {host} can't be used: {error.strerror}",
                fix="stop what listens there, or choose another one with --port "
                "(or AUTOGRADER_PORT)",
            ) from error
