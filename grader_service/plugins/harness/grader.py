"""The grader `autograder` of `inspect_robots`."""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

from inspect_robots.errors import ConfigError, EmbodimentFault, SafetyAbort
from inspect_robots.log import EvalResults

from grader_service.client.http import Client
from grader_service.errors import AutograderError, NoServiceError, UnavailableError
from grader_service.plugins.harness.options import Options
from grader_service.plugins.harness.sender import Sender, Ticket
from grader_service.plugins.harness.snapshot import take_snapshot
from grader_service.plugins.harness.verdicts import (
    GRADING_ERROR,
    MARKER,
    adopt,
    land,
    new_marker,
    settle,
)
from grader_service.plugins.harness.voice import Voice

_PREFLIGHT_S: Final = 5.0
_FIRST_POLL_S: Final = 0.1
_LONGEST_POLL_S: Final = 2.0
# A service that has the trial may be silent for so long before the robot goes on.
_PATIENCE_S: Final = 5.0
# How often a trial that was not taken is sent again at once, since the service is back.
_HURRIES: Final = 3


class AutograderGrader:
    """Submits each trial to a service, and lets the robot go on or waits for the verdict.

    Thread-safe: several tasks may share one.
    """

    name = "autograder"

    def __init__(self, options: Options) -> None:
        self._options = options
        self._voice = Voice()
        self._sender = Sender(options, self._voice)
        self._asking = Client(options.url, timeout_s=_PATIENCE_S)
        weakref.finalize(self, self._asking.close).atexit = False
        # Set by Ctrl-C: from then on nothing is waited for.
        self._stop_waiting = threading.Event()
        self._checked = False
        self._check = threading.Lock()

    def config(self) -> dict[str, Any]:
        """Return what governs the grading, as plain JSON for the log."""
        options = self._options
        return {
            "mode": "wait" if self._waits else "deferred",
            "url": options.url,
            "run": options.run,
            "rubric": options.rubric,
            "judge": options.judge,
            "timeout": options.timeout,
            "pending": "abstain" if options.abstain else "zero",
        }

    @property
    def _waits(self) -> bool:
        return self._options.wait and not self._stop_waiting.is_set()

    def preflight(self) -> None:
        """Ask the service once whether it takes trials, before the robot moves.

        Raises ConfigError when what answers is no service or does not know the rubric or the judge,
        and when the run is to wait for verdicts of a service that does not answer. Otherwise trials
        are kept until it does.
        """
        with self._check:
            if self._checked:
                return
            try:
                with Client(self._options.url, timeout_s=_PREFLIGHT_S) as client:
                    causes = client.readiness().get("causes")
                    if isinstance(causes, list):
                        self._check_names(client)
            except UnavailableError as error:
                if self._options.wait or isinstance(error, NoServiceError):
                    raise _config_error(error) from error
                causes = [f"{error.message}; trials are kept here until one does"]
            except AutograderError as error:
                raise _config_error(error) from error
            if not isinstance(causes, list):
                raise ConfigError(
                    f"what answers at {self._options.url} is no autograder service.\n"
                    "fix: give the address of one with -G url=..."
                )
            self._checked = True
        self._voice.say(f"run {self._options.run} at {self._options.url}")
        for cause in causes:
            self._voice.say(f"warning: {cause}")

    def _check_names(self, client: Client) -> None:
        rubric, judge = self._options.rubric, self._options.judge
        # With white space it is a sentence, which every service takes.
        if rubric is not None and len(rubric.split()) == 1:
            client.rubric(rubric)
        judges = [known["name"] for known in client.judges()]
        if judge is not None and judges and judge not in judges:
            raise ConfigError(
                f"there is no judge {judge!r} at {self._options.url}.\n"
                f"fix: -G judge={' or '.join(judges)}, or leave it out"
            )

    def grade(self, record: Any, scene: Any) -> None:
        """Hand a trial over. Whatever goes wrong is said on stderr; the run goes on."""
        marker = new_marker(uuid4().hex, self._options.run)
        where = f"{scene.id} epoch {record.epoch}"
        why = "Ctrl-C"
        # Let through, an error or Ctrl-C would cost the harness the log of the whole run. The
        # first Ctrl-C ends the waiting only, so the trial is handed over after it.
        for _ in range(2):
            try:
                self._grade(record, scene, marker)
            except (SafetyAbort, EmbodimentFault):
                raise
            except KeyboardInterrupt:
                self._interrupted()
            except BaseException as error:  # noqa: BLE001
                why = f"{type(error).__name__}: {error}"
                break
            if MARKER in record.metadata:
                return
        if MARKER in record.metadata:
            self._voice.say(f"{where} stays pending: {why}")
            return
        record.metadata[MARKER] = marker
        if marker["state"] == "pending":
            marker.update(state="rejected", reason=why[:500])
        self._voice.say(f"{where} is not submitted: {why}")

    def _grade(self, record: Any, scene: Any, marker: dict[str, Any]) -> None:
        adopted = adopt(record)
        if adopted:
            settle(marker, "graded")
        snapshot = take_snapshot(record, scene, marker["client_id"])
        ticket = self._sender.put(snapshot, marker)
        # Only now: what is sent is the record as the harness made it, also when it is sent again.
        record.metadata[MARKER] = marker
        if adopted:
            return
        parked = any(frame.phase == "parked" for frame in snapshot.frames)
        del snapshot
        if self._options.abstain:
            record.metadata[GRADING_ERROR] = f"pending: autograder trial {marker['client_id']}"
        trial = self._verdict(ticket) if self._waits else None
        if trial is None:
            if marker["state"] == "pending":
                self._announce_pending()
            return
        record.metadata.pop(GRADING_ERROR, None)
        land(record, trial, parked=parked)
        settle(marker, trial["outcome"], trial["reason"])

    # --- waiting ---------------------------------------------------------------------------------

    def _verdict(self, ticket: Ticket) -> Mapping[str, Any] | None:
        """Wait for a trial's verdict; return None when it does not come in time."""
        try:
            trial = self._wait(ticket)
        except KeyboardInterrupt:
            self._interrupted()
            return None
        except AutograderError as error:
            self._voice.say(f"{error.message}; the trial stays pending")
            return None
        return trial

    def _wait(self, ticket: Ticket) -> Mapping[str, Any] | None:
        give_up, poll = time.monotonic() + self._options.timeout, _FIRST_POLL_S
        answered, hurried = -math.inf, 0
        if not ticket.wait(self._options.timeout):
            self._tell_overdue()
        while (
            ticket.tried.is_set()
            and ticket.marker["state"] == "pending"
            and not self._stop_waiting.is_set()
        ):
            try:
                trial = self._asking.find(ticket.marker["client_id"])
                answered = time.monotonic()
            except UnavailableError:
                if time.monotonic() - answered > _PATIENCE_S:
                    raise
            else:
                if trial is None:
                    # It was not taken when it was sent, but the service answers by now.
                    if hurried == _HURRIES:
                        break
                    hurried += 1
                    self._sender.hurry(ticket, give_up - time.monotonic())
                    continue
                ticket.marker["trial"] = trial["id"]
                if trial["state"] == "done":
                    return trial
                if trial["state"] == "cancelled":
                    self._voice.say(f"trial {trial['id']} was cancelled")
                    break
            if time.monotonic() + poll > give_up:
                self._tell_overdue()
                break
            time.sleep(poll)
            poll = min(1.5 * poll, _LONGEST_POLL_S)
        return None

    # --- telling ---------------------------------------------------------------------------------

    def _interrupted(self) -> None:
        waited = self._waits
        self._stop_waiting.set()
        if waited:
            self._voice.say(
                "not waiting for verdicts any more; this trial and all later ones stay pending "
                "until `autograder harvest LOG`. Press Ctrl-C again to end the run."
            )
        else:
            self._voice.say("Ctrl-C came while a trial was handed over; press it again")

    def _tell_overdue(self) -> None:
        self._voice.say(f"no verdict within {self._options.timeout:g} s; the trial stays pending")

    def _announce_pending(self) -> None:
        known = "abstentions" in getattr(EvalResults, "__dataclass_fields__", {})
        if self._options.abstain and known:
            meaning = "pending trials abstain in the log, and the run's status is an error,"
        else:
            meaning = "pending trials count as 0 in the log"
        waits = "" if self._options.wait else "the robot does not wait for verdicts: "
        self._voice.once(
            "pending",
            f"{waits}{meaning} until `autograder harvest LOG` "
            f"writes them into it. See them come: `autograder watch {self._options.run}`",
        )


def _config_error(error: AutograderError) -> ConfigError:
    return ConfigError(str(error))
