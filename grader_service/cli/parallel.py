"""Work on many inputs in several processes: in order, and in bounded memory."""

from __future__ import annotations

import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Final, TypeVar

from grader_service.errors import SetupError

T = TypeVar("T")
R = TypeVar("R")

# Handing over one small input costs more than the work on it.
CHUNK: Final = 16
# Chunks per process that are under way or done and not yet taken.
AHEAD: Final = 3


def in_order(work: Callable[[T], R], items: Sequence[T], jobs: int) -> Generator[R]:
    """Yield `work(item)` for each item, in order, worked out in as many processes.

    Results that nobody has taken yet never pile up: only a few chunks are ahead. With one job, or
    one chunk, the work is done here. Closing the iterator ends the processes. Raises SetupError
    when one of them died.
    """
    starts = range(0, len(items), CHUNK)
    jobs = min(jobs, len(starts))
    if jobs <= 1:
        yield from map(work, items)
        return
    # Not fork: this process may have threads. Nor a Pool: it waits for ever for a killed process.
    pool = ProcessPoolExecutor(
        jobs,
        mp_context=get_context("spawn"),
        initializer=signal.signal,
        initargs=(signal.SIGINT, signal.SIG_DFL),
    )
    ahead: deque[Future[list[R]]] = deque()
    try:
        for start in starts:
            with _interrupts_ignored():
                ahead.append(pool.submit(_all, work, items[start : start + CHUNK]))
            if len(ahead) >= AHEAD * jobs:
                yield from ahead.popleft().result()
        while ahead:
            yield from ahead.popleft().result()
    except BrokenProcessPool as error:
        raise SetupError(
            "a process that worked on the inputs was killed",
            fix="give fewer --jobs: the memory may not suffice for so many",
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _all(work: Callable[[T], R], chunk: Sequence[T]) -> list[R]:
    return [work(item) for item in chunk]


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Ignore Ctrl-C here and in processes while they start.

    A terminal sends it to all of them. Once at work they end by it without a word, but Python
    itself, half started, would print a traceback.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
