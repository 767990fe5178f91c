"""Databases that can be taken away for a while."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.support.servers import PostgresServer, new_postgres_database, postgres_server


class StoppableDatabase(Protocol):
    """Where the service keeps its rows."""

    @property
    def url(self) -> str: ...

    def stop(self) -> None: ...

    def start(self) -> None: ...


@dataclass
class CrashingPostgres:
    """A PostgreSQL that crashes: every connection breaks, and it recovers from its log."""

    server: PostgresServer
    url: str

    def stop(self) -> None:
        postmaster = self.server.cluster.get_postmaster_info().process
        assert postmaster is not None
        # "Immediate shutdown": no checkpoint, no goodbye to the clients.
        postmaster.send_signal(signal.SIGQUIT)
        postmaster.wait(10)

    def start(self) -> None:
        self.server.start()


class LockedSqlite:
    """An SQLite file whose write lock somebody holds; there is no server to stop."""

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"
        self._path = path
        self._held: sqlite3.Connection | None = None

    def stop(self) -> None:
        held = sqlite3.connect(self._path, timeout=2, isolation_level=None)
        try:
            held.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:
            # A worker that is frozen in a transaction holds it: nobody can write now either, and
            # whoever wakes it up waits for this to return.
            held.close()
            return
        self._held = held

    def start(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None


@contextmanager
def stoppable_database(*, sqlite: bool, folder: Path) -> Iterator[StoppableDatabase]:
    """Give an empty database without tables until the block ends."""
    if sqlite:
        database = LockedSqlite(folder / "autograder.db")
        try:
            yield database
        finally:
            database.start()
        return
    with postgres_server() as server:
        yield CrashingPostgres(server, new_postgres_database(server.url))
