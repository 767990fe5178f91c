"""The database: one transaction for each use case, on SQLite or PostgreSQL."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    CursorResult,
    Engine,
    Float,
    create_engine,
    event,
    literal,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import FunctionElement

from grader_service.errors import SetupError, UnavailableError

# PostgreSQL's codes for a table and a column that are not there.
_NOT_MIGRATED = ("42P01", "42703")


class _Now(FunctionElement[float]):
    """The database's clock in seconds since the epoch: one clock for all machines."""

    type = Float()
    inherit_cache = True


@compiles(_Now, "sqlite")
def _now_sqlite(_element: _Now, _compiler: Any, **_kw: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(_Now, "postgresql")
def _now_postgresql(_element: _Now, _compiler: Any, **_kw: Any) -> str:
    # Not clock_timestamp(), which no index can be searched by: it may differ from row to row.
    return "extract(epoch from statement_timestamp())"


@dataclass(frozen=True, slots=True)
class Unit:
    """One open transaction. `now` is an SQL expression: the time at which a statement runs."""

    connection: Connection
    now: ColumnElement[float]

    def execute(self, statement: Any, parameters: Any = None) -> CursorResult[Any]:
        return self.connection.execute(statement, parameters)

    @property
    def dialect(self) -> str:
        return self.connection.dialect.name

    def time(self) -> float:
        """Return the clock's reading."""
        from sqlalchemy import select

        return float(self.connection.execute(select(self.now)).scalar_one())


class Database:
    """An engine, and the two kinds of transaction that use cases open on it."""

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 8,
        wait_s: float = 30.0,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Connect to nothing yet. `wait_s` bounds the wait for a connection or SQLite's lock."""
        self.url = url
        self._clock = clock
        self.wait_s = wait_s
        self._engine = _engine(url, pool_size, wait_s)
        # SQLite has one writer. Its busy handler sleeps and is unfair under threads; waiting here
        # first keeps the threads of one process in line.
        self._writer = threading.Lock() if self.is_sqlite else None

    @property
    def is_sqlite(self) -> bool:
        return self._engine.dialect.name == "sqlite"

    @property
    def engine(self) -> Engine:
        return self._engine

    @contextlib.contextmanager
    def write(self) -> Iterator[Unit]:
        """Open a read-write transaction; commit at the end, roll back on any error.

        Raises UnavailableError when the database can't be reached, is locked or is full.
        """
        with self._turn(), self._transaction(write=True) as unit:
            yield unit

    @contextlib.contextmanager
    def read(self) -> Iterator[Unit]:
        """Open a read-only transaction. Raises UnavailableError as `write` does."""
        with self._transaction(write=False) as unit:
            yield unit

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        if self._writer is None:
            yield
            return
        if not self._writer.acquire(timeout=self.wait_s):
            raise _unavailable("others have been writing for too long")
        try:
            yield
        finally:
            self._writer.release()

    @contextlib.contextmanager
    def _transaction(self, *, write: bool) -> Iterator[Unit]:
        now: ColumnElement[float] = _Now() if self._clock is None else literal(self._clock())
        try:
            with (
                self._engine.connect().execution_options(autograder_write=write) as connection,
                connection.begin(),
            ):
                yield Unit(connection, now)
        except (OperationalError, PoolTimeoutError) as error:
            raise _unavailable(error) from error
        except ProgrammingError as error:
            if getattr(error.orig, "sqlstate", None) in _NOT_MIGRATED:
                raise _unavailable(error) from error
            raise
        except DBAPIError as error:
            if error.connection_invalidated:
                raise _unavailable(error) from error
            raise

    def close(self) -> None:
        self._engine.dispose()


def _unavailable(why: str | DBAPIError | PoolTimeoutError) -> UnavailableError:
    said = str(why.orig if isinstance(why, DBAPIError) else why)
    return UnavailableError(
        # What follows the first line quotes the statement.
        f"the database did not answer: {said.strip().partition(chr(10))[0]}",
        fix="see that it runs, has disk space and is migrated (`autograder migrate`); "
        "then try again",
    )


def _engine(url: str, pool_size: int, wait_s: float) -> Engine:
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except (ArgumentError, ValueError):
        # Neither the URL nor what quotes it: there may be a password in it.
        raise SetupError(
            "AUTOGRADER_DATABASE_URL is no database URL",
            fix="set it to sqlite:///file.db or postgresql+psycopg://user:password@host/name",
        ) from None
    if backend == "sqlite":
        return _sqlite_engine(url, parsed.database or "", pool_size, wait_s)
    if backend != "postgresql":
        raise SetupError(
            f"the database {backend} is not supported",
            fix="use sqlite:///file.db or postgresql+psycopg://…",
        )
    try:
        return create_engine(
            url,
            pool_size=pool_size,
            max_overflow=pool_size,
            pool_timeout=wait_s,
            # A connection that a restart of the server left dead is replaced unnoticed.
            pool_pre_ping=True,
            # Without the second a server whose machine is gone holds its clients for a quarter of
            # an hour: nobody is left to refuse what they send.
            connect_args={"connect_timeout": 5, "tcp_user_timeout": 10_000},
        )
    except ImportError as error:
        raise SetupError(
            "the PostgreSQL driver is not installed",
            fix="pip install 'robot-autograder[server,postgres]'",
        ) from error


def _sqlite_engine(url: str, path: str, pool_size: int, wait_s: float) -> Engine:
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SetupError(
            f"can't make the folder of the database {path}: {error.strerror}",
            fix="set AUTOGRADER_HOME to a folder that can be written, or AUTOGRADER_DATABASE_URL",
        ) from error
    engine = create_engine(
        url,
        # All are kept: opening one takes longer than most transactions.
        pool_size=2 * pool_size,
        max_overflow=0,
        pool_timeout=wait_s,
        connect_args={"timeout": wait_s, "check_same_thread": False},
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        # The driver would begin transactions by itself, and late: `_begin` below does it.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        # FULL: what was answered with 202 survives a power cut.
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # A transaction that reads first and writes later can deadlock; IMMEDIATE can't.
        write = connection.get_execution_options().get("autograder_write")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine
