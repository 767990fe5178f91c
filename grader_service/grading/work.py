"""Work on one grading: claim it, ask its judge, and end it or put it back."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from grader_service.errors import TryLaterError, UnavailableError
from grader_service.grading.leases import Gate, Leases
from grader_service.judging.evidence import Evidence
from grader_service.judging.judge import Judge, Judged
from grader_service.judging.receipt import Case
from grader_service.judging.rubric import rubric_from_json
from grader_service.records.canonical import digest_of
from grader_service.records.trajectory import parse_trajectory
from grader_service.records.verdict import Decision
from grader_service.scoring.a320 import judge_bundle
from grader_service.storage import gradings, trials, verdicts
from grader_service.storage.blobs import BlobStore
from grader_service.storage.database import Database

_log = logging.getLogger(__name__)

Ended = Literal["nothing", "done", "put_back", "fenced"]


@dataclass(frozen=True, slots=True)
class Retry:
    """How long a grading waits after a fault: full jitter up to min(cap, base · 2^failures)."""

    base_s: float = 2.0
    cap_s: float = 300.0

    def delay(self, failures: int) -> float:
        ceiling = min(self.cap_s, self.base_s * 2**failures)
        # Spread, not secrecy.
        return random.uniform(0, ceiling)  # noqa: S311


@dataclass
class Grader:
    """One worker process's way to grade. Thread-safe."""

    database: Database
    blobs: BlobStore
    judges: Mapping[str, Judge]
    default_judge: str | None
    leases: Leases
    node: str
    retry: Retry = field(default_factory=Retry)
    gate: Gate = field(default_factory=Gate)

    def grade(self, grading_id: str) -> Ended:
        """Grade one row, if it is there to be claimed. Called with any id any number of times."""
        with self.database.read() as unit:
            lost_leases = gradings.peek(unit, grading_id)
        if lost_leases is None:
            return "nothing"
        with self.gate.enter(alone=lost_leases >= gradings.ALONE_AFTER):
            with self.database.write() as unit:
                claim = gradings.claim(
                    unit, grading_id, owner=self.node, lease_s=self.leases.lease_s
                )
            if claim is None:
                return "nothing"
            with self.leases.hold(claim):
                return self._grade_claimed(claim)

    def _grade_claimed(self, claim: gradings.Claim) -> Ended:
        judge = self.judges.get(claim.judge or self.default_judge or "")
        if judge is None:
            return self._put_back(claim, f"this worker has no judge {claim.judge!r}", counts=False)
        last_try = claim.failures + 1 >= gradings.MAX_FAILURES
        try:
            trial = self._load(claim)
            judged = self._judge(judge, trial)
        except TryLaterError as error:
            if not (error.counts and last_try):
                return self._put_back(
                    claim, str(error), counts=error.counts, delay_s=error.retry_after
                )
            judged = judge.failed(trial.case, error)
        except UnavailableError as error:
            # Our own storage is away: no fault of the trial, however long it lasts.
            return self._put_back(claim, str(error), counts=False)
        except Exception as error:  # noqa: BLE001  (a bug must end in a reason, not in a lost trial)
            _log.exception("grading %s failed", claim.id)
            if not last_try:
                return self._put_back(claim, repr(error), counts=True)
            judged = Judged(
                Decision.ungraded("internal"), {"schema": "receipt/1", "error": repr(error)}
            )
            return self._finish(claim, judge, judged, source="service")
        return self._finish(claim, judge, judged, source=judge.source(trial.kind))

    def _load(self, claim: gradings.Claim) -> _Loaded:
        with self.database.read() as unit:
            row = trials.by_id(unit, claim.trial_id)
            rubric = trials.get_rubric(unit, claim.rubric_digest)
            receipts = [v.receipt for v in verdicts.of_trial(unit, claim.trial_id) if v.receipt]
        case = Case(
            trial_id=claim.trial_id,
            record_digest=row.record_digest,
            round=claim.round,
            rubric=rubric_from_json(rubric),
            previous_receipt=digest_of(receipts[-1]) if receipts else None,
        )
        return _Loaded(kind=row.kind, row=row, case=case)

    def _judge(self, judge: Judge, trial: _Loaded) -> Judged:
        if trial.kind == "a320":
            records = parse_trajectory(self.blobs.get(trial.row.record_digest))
            return judge.judge_bundle(trial.case, bundle=judge_bundle(records))
        frames = [
            Evidence(
                camera=frame["camera"],
                phase=frame["phase"],
                sha256=frame["sha256"],
                data=self.blobs.get(frame["sha256"]),
            )
            for frame in trial.row.frames
        ]
        return judge.judge_frames(trial.case, instruction=trial.row.instruction, frames=frames)

    def _put_back(
        self,
        claim: gradings.Claim,
        error: str,
        *,
        counts: bool,
        delay_s: float | None = None,
    ) -> Ended:
        wait = self.retry.delay(claim.failures) if delay_s is None else delay_s
        with self.database.write() as unit:
            kept = gradings.put_back(unit, claim, delay_s=wait, counts=counts, error=error)
        return "put_back" if kept else "fenced"

    def _finish(self, claim: gradings.Claim, judge: Judge, judged: Judged, *, source: str) -> Ended:
        """Store the outcome; try again while the database is away, since the call was paid for."""
        give_up = time.monotonic() + 10 * self.leases.lease_s
        while True:
            try:
                return self._store(claim, judge, judged, source)
            except UnavailableError as error:
                if time.monotonic() > give_up:
                    raise
                _log.warning("grading %s waits for the database: %s", claim.id, error.message)
                time.sleep(0.5)

    def _store(self, claim: gradings.Claim, judge: Judge, judged: Judged, source: str) -> Ended:
        with self.database.write() as unit:
            if not gradings.finish(unit, claim, judged.decision, judge_digest=judge.digest):
                _log.warning("grading %s was taken over; its late answer is dropped", claim.id)
                return "fenced"
            verdicts.append(
                unit,
                trial_id=claim.trial_id,
                grading_id=claim.id,
                source=source,
                decision=judged.decision,
                note=judged.decision.rationale or judged.receipt.get("error"),
                by=judge.config.name,
                receipt=judged.receipt,
            )
        return "done"


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What a judge needs of a stored trial."""

    kind: str
    row: Any
    case: Case
