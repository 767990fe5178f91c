"""Trials on their way to the service: to the disk first, then sent, in threads of their own.

One thread packs snapshots and writes them to the spool, another one sends what lies there, so that
a service that hangs keeps nothing from the disk. Only a few snapshots are ever in memory: beyond
them the harness waits for the disk. Both threads end when nothing is left to do.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from grader_service.client.http import Client
from grader_service.client.spool import Entry, Outcome, Spool
from grader_service.errors import AutograderError, UnavailableError
from grader_service.plugins.harness.options import Options
from grader_service.plugins.harness.snapshot import Packed, Snapshot, pack
from grader_service.plugins.harness.voice import Voice

_IN_MEMORY: Final = 4
# How long the harness waits for a disk that takes nothing before it gives a trial up.
_DISK_S: Final = 30.0
_FIRST_WAIT_S: Final = 1.0
_LONGEST_WAIT_S: Final = 60.0
_STEP_S: Final = 0.005
_CLOSING_WAIT_S: Final = 0.5


@dataclass(slots=True)
class Ticket:
    """What became of a trial that was handed over; `tried` is set once sending it was tried."""

    marker: dict[str, Any]
    tried: threading.Event = field(default_factory=threading.Event)

    def wait(self, timeout_s: float) -> bool:
        """Wait until sending it was tried; say whether it was.

        Not by the event's own wait, in which a Ctrl-C could leave it locked.
        """
        give_up = time.monotonic() + timeout_s
        while not self.tried.is_set() and time.monotonic() < give_up:
            time.sleep(_STEP_S)
        return self.tried.is_set()

    def accepted(self, answer: Mapping[str, Any] | None) -> None:
        """Mark that the service has it; `answer` is None when another process sent it."""
        if answer is not None:
            self.marker["trial"] = answer.get("id")
        self.tried.set()

    def refused(self, why: str) -> None:
        """Mark that the service never gets it; a verdict that it brought along stays."""
        if self.marker["state"] == "pending":
            self.marker.update(state="rejected", reason=why[:500])
        self.tried.set()


class Sender:
    """Hands trials to one service. Thread-safe."""

    def __init__(self, options: Options, voice: Voice) -> None:
        self.options = options
        self.voice = voice
        self.client = Client(options.url)
        weakref.finalize(self, self.client.close).atexit = False
        self._spool = Spool(options.spool)
        # Guards what follows. The harness' thread takes it by itself: a Ctrl-C within the entry of
        # the condition, which is Python, would leave it locked for good.
        self._lock = threading.RLock()
        # Is told of every change of what follows.
        self._changed = threading.Condition(self._lock)
        self._snapshots: deque[tuple[Snapshot, Ticket]] = deque()
        self._writing = 0
        self._entries: deque[tuple[Entry, Ticket]] = deque()
        # Of earlier runs: sent when nothing of this one waits.
        self._leftovers: deque[Entry] | None = None
        self._born = f"{time.time_ns():020d}"
        self._troubled = False
        self._running: set[str] = set()
        self._closing = False
        self._hurried = False

    def put(self, snapshot: Snapshot, marker: dict[str, Any]) -> Ticket:
        """Take a snapshot over; its marker is kept up to date."""
        ticket, give_up = Ticket(marker), time.monotonic() + _DISK_S
        while not self._has_taken(snapshot, ticket):
            if time.monotonic() > give_up:
                self._lost(ticket, f"{self._spool.folder} took nothing for {_DISK_S:.0f} s")
                break
            time.sleep(_STEP_S)
        return ticket

    def _has_taken(self, snapshot: Snapshot, ticket: Ticket) -> bool:
        with self._lock:
            if len(self._snapshots) >= _IN_MEMORY:
                return False
            _BUSY.add(self)
            self._snapshots.append((snapshot, ticket))
            # The sending one too: at the end of the process no thread can be started any more.
            self._start("write")
            self._start("send")
            self._changed.notify_all()
        return True

    def hurry(self, ticket: Ticket, timeout_s: float) -> None:
        """Send what waits without a pause, and wait until that was tried with this trial."""
        with self._lock:
            if all(waiting is not ticket for _, waiting in self._entries):
                return
            ticket.tried.clear()
            self._hurried = True
            self._changed.notify_all()
        ticket.wait(timeout_s)

    def left(self) -> int:
        """Return how many trials are not sent yet."""
        with self._changed:
            return self._left()

    def close(self, give_up: float) -> int:
        """Wait until all is sent, at most until `give_up` (monotonic); return how much is not.

        What is still in memory is written first, however long the disk takes for it.
        """
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._unwritten, _DISK_S)
            self._changed.wait_for(lambda: not self._left(), max(0, give_up - time.monotonic()))
            return self._left()

    @property
    def _unwritten(self) -> int:
        return len(self._snapshots) + self._writing

    def _left(self) -> int:
        return self._unwritten + len(self._entries) + len(self._leftovers or ())

    def _start(self, work: str) -> None:
        if work not in self._running:
            # Daemons: a service that hangs must not keep the harness from ending.
            name = f"autograder-{work}"
            threading.Thread(target=self._run, args=[work], name=name, daemon=True).start()

    def _run(self, work: str) -> None:
        # Noted by the thread itself: a Ctrl-C may come while it is being started, or just after.
        with self._changed:
            if work in self._running:
                return
            self._running.add(work)
        {"write": self._write, "send": self._send}[work]()

    # --- to the disk -----------------------------------------------------------------------------

    def _write(self) -> None:
        while True:
            with self._changed:
                if not self._snapshots:
                    self._running.discard("write")
                    return
                snapshot, ticket = self._snapshots.popleft()
                self._writing += 1
            try:
                self._write_one(snapshot, ticket)
            except Exception as error:  # noqa: BLE001  # the thread serves the next trial
                self._lost(ticket, f"{type(error).__name__}: {error}")
            del snapshot
            self._written()

    def _write_one(self, snapshot: Snapshot, ticket: Ticket) -> None:
        options = self.options
        packed = pack(snapshot, run=options.run, rubric=options.rubric, judge=options.judge)
        for what in packed.left_out:
            where = f"{snapshot.scene.id} epoch {snapshot.record.epoch}"
            self.voice.say(f"{where} is sent without {what}")
        try:
            entry = self._spool.put(options.url, packed.trial, packed.parts)
        except OSError as error:
            self.voice.once(
                "spool",
                f"{error}; while that is so, a trial is lost when the service does not take it.\n"
                "fix: make room, or give another folder with -G spool=...",
            )
            self._send_unspooled(packed, ticket)
            return
        with self._changed:
            self._entries.append((entry, ticket))
            if self._troubled:
                ticket.tried.set()
            self._changed.notify_all()

    def _send_unspooled(self, packed: Packed, ticket: Ticket) -> None:
        try:
            ticket.accepted(self.client.submit(packed.trial, packed.parts))
        except AutograderError as error:
            self._lost(ticket, error.message)

    def _written(self) -> None:
        with self._changed:
            self._writing -= 1
            self._changed.notify_all()

    def _lost(self, ticket: Ticket, why: str) -> None:
        self.voice.say(f"a trial is lost: {why}")
        ticket.refused(why)

    # --- to the service --------------------------------------------------------------------------

    def _send(self) -> None:
        if self._leftovers is None:
            self._take_up_leftovers()
        pause = _FIRST_WAIT_S
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._unwritten == 0 or self._next() is not None)
                following = self._next()
                if following is None:
                    self._running.discard("send")
                    _BUSY.discard(self)
                    return
            trouble = self._send_one(*following)
            if trouble is None:
                pause = _FIRST_WAIT_S
                continue
            self.voice.once(
                "unreachable",
                f"{trouble}; trials are kept in {self._spool.folder} and sent later",
            )
            self._pause(pause, leftover=following[1] is None)
            pause = min(2 * pause, _LONGEST_WAIT_S)

    def _take_up_leftovers(self) -> None:
        leftovers = []
        try:
            self._spool.clean()
            leftovers = self._spool.waiting(self.options.url)
        except OSError as error:
            self.voice.say(f"{error}; what earlier runs left there is not sent")
        with self._changed:
            self._leftovers = deque(e for e in leftovers if e.path.name < self._born)
        if self._leftovers:
            self.voice.say(f"{len(self._leftovers)} trials of earlier runs are sent now")

    def _next(self) -> tuple[Entry, Ticket | None] | None:
        if self._entries:
            return self._entries[0]
        return (self._leftovers[0], None) if self._leftovers else None

    def _send_one(self, entry: Entry, ticket: Ticket | None) -> str | None:
        """Send an entry; return what keeps it here, if anything does."""
        trouble = None
        try:
            outcome = self._spool.send(entry, self.client)
        except (UnavailableError, OSError) as error:
            trouble = str(error).partition("\n")[0]
        except Exception as error:  # noqa: BLE001  # the thread serves the next trial
            trouble = f"{type(error).__name__}: {error}"
        else:
            if outcome.kind == "busy" and ticket is not None:
                trouble = "another process sends what is kept here"
            else:
                self._tell(entry, ticket, outcome)
        with self._changed:
            # What an earlier run left says nothing of the trials of this one.
            self._troubled = trouble is not None and ticket is not None
            line: deque[Any] | None = self._leftovers if ticket is None else self._entries
            assert line
            first = line.popleft()
            if trouble is not None:
                # At the end of the line: what the service can't take must not keep the others back.
                line.append(first)
                if ticket is not None:
                    for _, waiting in self._entries:
                        waiting.tried.set()
            if ticket is not None:
                ticket.tried.set()
            self._changed.notify_all()
        return trouble

    def _tell(self, entry: Entry, ticket: Ticket | None, outcome: Outcome) -> None:
        if outcome.kind == "refused":
            self.voice.say(
                f"the service refused trial {entry.client_id}: {outcome.problem}\n"
                "fix: `autograder flush` shows where it is kept and how to send it again"
            )
            if ticket is not None:
                ticket.refused(str(outcome.problem))
        elif ticket is not None:
            ticket.accepted(outcome.answer)

    def _pause(self, seconds: float, *, leftover: bool) -> None:
        with self._changed:
            if not self._closing:
                self._changed.wait_for(
                    lambda: self._closing or self._hurried or (leftover and self._entries), seconds
                )
                self._hurried = False
                return
        time.sleep(min(seconds, _CLOSING_WAIT_S))


# Those with something to send, which nothing else may keep alive.
_BUSY: Final[set[Sender]] = set()
_PROCESS: Final = os.getpid()


@atexit.register
def _send_the_rest() -> None:
    # A forked child has inherited the trials, but not the threads.
    if os.getpid() != _PROCESS:
        return
    started = time.monotonic()
    for sender in list(_BUSY):
        left, bound = sender.left(), sender.options.flush
        if not left:
            continue
        try:
            if bound:
                sender.voice.say(f"sending {left} trials, for at most {bound:g} s")
            left = sender.close(started + bound)
        except KeyboardInterrupt:
            left = sender.close(started)
        if left:
            sender.voice.say(
                f"{left} trials are not sent yet; they are kept in {sender.options.spool}.\n"
                "fix: `autograder flush` sends them"
            )
        else:
            sender.voice.say("every trial is sent")
