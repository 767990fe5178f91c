"""One value per process: what must never cross a fork is made again in the child."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class PerProcess(Generic[T]):
    """Makes a value on first use in each process, once.

    A client that is inherited over a fork shares its sockets with the parent, and a reply may then
    reach the wrong process as a valid answer. A child never touches or closes the parent's.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._values: dict[int, T] = {}
        # One lock for each process as well: a thread may hold the parent's while it forks.
        self._locks: dict[int, threading.Lock] = {}

    def get(self) -> T:
        pid = os.getpid()
        if pid not in self._values:
            with self._locks.setdefault(pid, threading.Lock()):
                if pid not in self._values:
                    self._values[pid] = self._make()
        return self._values[pid]

    def take(self) -> T | None:
        """Return this process's value, if there is one, and forget it."""
        return self._values.pop(os.getpid(), None)
