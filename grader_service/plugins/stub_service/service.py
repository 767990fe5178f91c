"""The stub service: what a test tells it, and what it tells a test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, Self

from grader_service.errors import AutograderError, ConflictError, InputError, UnavailableError
from grader_service.plugins.stub_service.routes import Routes
from grader_service.plugins.stub_service.server import Request, Response, Server, problem
from grader_service.plugins.stub_service.trials import Received, scripted

Outage = Literal["503", "refused", "hang"]

_REFUSED: Final = "refused"


class SeenRequest(NamedTuple):
    """One request and the status that it was answered with."""

    method: str
    path: str
    status: int


@dataclass
class _Rule:
    """What comes of the trials of a scene and an epoch, where these are given."""

    words: Sequence[str]
    scene: str | None
    epoch: int | None
    after: float
    note: str | None
    used: int = 0

    def weight(self, scene: str, epoch: int) -> int:
        """Return how closely the rule names a trial; -1 where it speaks of others."""
        if self.scene not in (None, scene) or self.epoch not in (None, epoch):
            return -1
        return 2 * (self.scene is not None) + (self.epoch is not None)

    def next_word(self) -> str:
        self.used += 1
        return self.words[min(self.used, len(self.words)) - 1]


@dataclass
class _Trouble:
    """How requests are met until it is `over`."""

    outage: Outage | None = None
    retry_after: float = 0.0
    delay: float = 0.0
    over: threading.Event = field(default_factory=threading.Event)


class StubService:
    """A service on a loopback port; as a context manager it runs until the block ends.

    Takes trials as the real service does, with the same checks, and says of them what `script`
    told it. Thread-safe.
    """

    def __init__(self) -> None:
        # In the order of their submission.
        self.trials: list[Received] = []
        self.requests: list[SeenRequest] = []
        self._rules: list[_Rule] = []
        self._trouble = _Trouble()
        self._held = False
        self._changed = threading.Condition()
        self._routes = Routes(self)
        self._server = Server(self._answer)
        self.script("success")

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._trouble.over.set()
        self._server.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.port}"

    def wait_for(self, count: int, *, timeout_s: float = 10.0) -> list[Received]:
        """Return the trials once there are so many: a harness may send them in the background.

        Raises TimeoutError.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.trials) >= count, timeout_s):
                raise TimeoutError(f"{len(self.trials)} of {count} trials came in {timeout_s:g} s")
            return list(self.trials)

    # --- what a test tells it -------------------------------------------------------------------

    def script(
        self,
        *words: str,
        scene: str | None = None,
        epoch: int | None = None,
        after: float = 0.0,
        note: str | None = "Scripted by a test.",
    ) -> None:
        """Say what comes of trials that are submitted from now on, `after` so many seconds.

        Each word is success, failure, abstain, "abstained: CODE" or "ungraded: CODE" with a reason
        code, or "refused: TEXT": then the submission is refused for good (422). Several words are
        used one after the other; the last one repeats. Of several scripts the one that names the
        trial most closely counts, of those the newest. Raises ValueError for another word.
        """
        if not words:
            raise ValueError("a script needs at least one word")
        for word in words:
            if word.partition(":")[0] != _REFUSED:
                scripted(word, "robot", None)
        with self._changed:
            self._rules.append(_Rule(words, scene, epoch, after, note))

    def down(
        self, how: Outage = "503", *, retry_after: float = 0.0
    ) -> AbstractContextManager[None]:
        """Be away until `up`, or until the block ends that this is used for.

        "503" answers that the service is not available, with `retry_after` seconds in its header;
        "refused" lets nobody connect; "hang" takes requests and does not answer.
        """
        return self._troubled(_Trouble(outage=how, retry_after=retry_after))

    def slow(self, seconds: float) -> AbstractContextManager[None]:
        """Answer each request so much later until `up`, or until the block ends."""
        return self._troubled(_Trouble(delay=seconds))

    def up(self) -> None:
        """Be well again; requests that hang are answered now."""
        self._trouble.over.set()
        self._trouble = _Trouble()
        self._server.start()

    def hold(self) -> AbstractContextManager[None]:
        """Keep back the verdicts of trials submitted until `release`, or until the block ends."""
        self._held = True
        return _until(self.release)

    def release(self) -> None:
        """Let the verdicts that are kept back come now, or once they are due."""
        self._held = False
        for trial in list(self.trials):
            trial.held = False

    def _troubled(self, trouble: _Trouble) -> AbstractContextManager[None]:
        self.up()
        self._trouble = trouble
        if trouble.outage == "refused":
            self._server.stop()
        return _until(self.up)

    # --- what its routes ask --------------------------------------------------------------------

    def take(self, trial: Received) -> tuple[Received, bool]:
        """Keep a trial; return it, or the one that came before, and whether it is new.

        Raises ConflictError where its client id is taken by other content, InputError where the
        script refuses it.
        """
        with self._changed:
            for known in self.trials:
                if trial.client_id is not None and known.client_id == trial.client_id:
                    if known.content != trial.content:
                        raise ConflictError(
                            f"the client id {trial.client_id!r} is taken by other content "
                            f"(trial {known.id})",
                            fix="use a client id that is new for each trial; repeat one only with "
                            "the same content",
                        )
                    known.sent += 1
                    return known, False
            trial.verdict = trial.trial.adopted()
            if trial.verdict is None:
                self._decide(trial)
            self.trials.append(trial)
            self._changed.notify_all()
            return trial, True

    def _decide(self, trial: Received) -> None:
        weights = [rule.weight(trial.scene_id, trial.epoch) for rule in self._rules]
        closest = max(weights)
        rule = [r for r, weight in zip(self._rules, weights, strict=True) if weight == closest][-1]
        word = rule.next_word()
        if word.partition(":")[0] == _REFUSED:
            raise InputError(word.partition(":")[2].strip() or "refused by the script")
        trial.verdict = scripted(word, trial.trial.kind, rule.note)
        trial.due = time.monotonic() + rule.after
        trial.held = self._held

    def is_done(self, trial: Received) -> bool:
        """Say whether a trial has its verdict by now."""
        return not trial.held and time.monotonic() >= trial.due

    def _answer(self, request: Request) -> Response:
        trouble = self._trouble
        try:
            if trouble.outage == "hang":
                trouble.over.wait()
            if trouble.delay:
                trouble.over.wait(trouble.delay)
            if trouble.outage == "503":
                raise UnavailableError("the service is down", retry_after=trouble.retry_after)
            response = self._routes.answer(request)
        except AutograderError as error:
            response = problem(error)
        self.requests.append(SeenRequest(request.method, request.path, response.status))
        return response


@contextmanager
def _until(end: Callable[[], None]) -> Iterator[None]:
    try:
        yield
    finally:
        end()
