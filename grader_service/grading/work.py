"""Work on one grading: claim it, ask its judge, and end it or put it back."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from grader_service.errors import JudgeError, TryLaterError, UnavailableError
from grader_service.grading import reuse
from grader_service.grading.leases import Gate, Leases
from grader_service.grading.limits import ProviderLimits
from grader_service.judging.evidence import Evidence
from grader_service.judging.judge import Judge, Judged
from grader_service.judging.receipt import Case
from grader_service.judging.rubric import rubric_from_json
from grader_service.records.canonical import digest_of
from grader_service.records.trajectory import parse_trajectory
from grader_service.records.verdict import Decision
from grader_service.scoring.a320 import judge_bundle
from grader_service.storage import gradings, publishing, trials, verdicts
from grader_service.storage.blobs import BlobStore
from grader_service.storage.database import Database

_log = logging.getLogger(__name__)

_T = TypeVar("_T")
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
    limits: ProviderLimits = field(default_factory=ProviderLimits)

    def grade(self, grading_id: str) -> Ended:
        """Grade one row, if it is there to be claimed. Called with any id any number of times."""
        lost_leases = self._patiently(lambda: self._peek(grading_id))
        if lost_leases is None:
            return "nothing"
        with self.gate.enter(alone=lost_leases >= gradings.ALONE_AFTER) as inside:
            if not inside:
                with self.database.write() as unit:
                    publishing.unpublish(unit, [grading_id])
                return "nothing"
            claim = self._patiently(lambda: self._claim(grading_id))
            if claim is None:
                return "nothing"
            with self.leases.hold(claim):
                return self._grade_claimed(claim)

    def _peek(self, grading_id: str) -> int | None:
        with self.database.read() as unit:
            return gradings.peek(unit, grading_id)

    def _claim(self, grading_id: str) -> gradings.Claim | None:
        with self.database.write() as unit:
            return gradings.claim(unit, grading_id, owner=self.node, lease_s=self.leases.lease_s)

    def _grade_claimed(self, claim: gradings.Claim) -> Ended:
        judge = self.judges.get(claim.judge or self.default_judge or "")
        if judge is None:
            return self._put_back(claim, f"this worker has no judge {claim.judge!r}", counts=False)
        last_try = claim.failures + 1 >= gradings.MAX_FAILURES
        trial: _Loaded | None = None
        try:
            trial = self._load(claim, judge)
            judged = self._take_over(trial)
            if judged is None:
                with self.limits.admitted(judge) as admitted:
                    judged = self._judge(admitted, trial)
        except TryLaterError as error:
            if trial is None or not (error.counts and last_try):
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
            return self._finish(claim, judge, _our_bug(judge, trial, error))
        ending = _Ending(
            judged.decision,
            source=judge.source(trial.kind),
            note=judged.decision.rationale or judged.receipt.get("error"),
            receipt=judged.receipt,
            question=trial.question if reuse.is_an_answer(judged) else None,
        )
        return self._finish(claim, judge, ending)

    def _load(self, claim: gradings.Claim, judge: Judge) -> _Loaded:
        with self.database.read() as unit:
            row = trials.by_id(unit, claim.trial_id)
            rubric = trials.get_rubric(unit, claim.rubric_digest)
            receipts = [v.receipt for v in verdicts.of_trial(unit, claim.trial_id) if v.receipt]
            question = reuse.question_of(
                tenant=row.tenant,
                record_digest=row.record_digest,
                rubric_digest=claim.rubric_digest,
                judge_digest=judge.digest,
            )
            answer = None if claim.fresh else verdicts.newest_answer(unit, question)
        case = Case(
            trial_id=claim.trial_id,
            record_digest=row.record_digest,
            round=claim.round,
            rubric=rubric_from_json(rubric),
            previous_receipt=digest_of(receipts[-1]) if receipts else None,
        )
        return _Loaded(kind=row.kind, row=row, case=case, question=question, answer=answer)

    def _take_over(self, trial: _Loaded) -> Judged | None:
        """Return the verdict that answers the same question already, if there is one."""
        return None if trial.answer is None else reuse.take_over(trial.case, trial.answer)

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
        return judge.judge_frames(
            trial.case,
            instruction=trial.row.instruction,
            instruction_from=trial.row.instruction_from,
            frames=frames,
        )

    def _put_back(
        self,
        claim: gradings.Claim,
        error: str,
        *,
        counts: bool,
        delay_s: float | None = None,
    ) -> Ended:
        wait = self.retry.delay(claim.failures) if delay_s is None else delay_s

        def put_back() -> bool:
            with self.database.write() as unit:
                return gradings.put_back(unit, claim, delay_s=wait, counts=counts, error=error)

        return "put_back" if self._patiently(put_back) else "fenced"

    def _finish(self, claim: gradings.Claim, judge: Judge, ending: _Ending) -> Ended:
        return self._patiently(lambda: self._store(claim, judge, ending))

    def _patiently(self, step: Callable[[], _T]) -> _T:
        """Do a step on the database; while it is away, wait and try again.

        What was asked is paid for, and what was not begun would wait long to be published again.
        """
        give_up = time.monotonic() + 10 * self.leases.lease_s
        said = False
        while True:
            try:
                return step()
            except UnavailableError as error:
                if time.monotonic() > give_up:
                    raise
                if not said:
                    _log.warning("a grading waits for the database: %s", error.message)
                said = True
                time.sleep(0.5)

    def _store(self, claim: gradings.Claim, judge: Judge, ending: _Ending) -> Ended:
        with self.database.write() as unit:
            if not gradings.finish(unit, claim, ending.decision, judge_digest=judge.digest):
                _log.warning("grading %s was taken over; its late answer is dropped", claim.id)
                return "fenced"
            verdicts.append(
                unit,
                trial_id=claim.trial_id,
                grading_id=claim.id,
                source=ending.source,
                decision=ending.decision,
                note=ending.note,
                by=judge.config.name,
                receipt=ending.receipt,
                question=ending.question,
            )
        return "done"


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What a judge needs of a stored trial, and the receipt that answers the same question."""

    kind: str
    row: Any
    case: Case
    question: str
    answer: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class _Ending:
    """What is stored of a grading."""

    decision: Decision
    source: str
    note: str | None
    receipt: Mapping[str, Any] | None = None
    question: str | None = None


def _our_bug(judge: Judge, trial: _Loaded | None, error: Exception) -> _Ending:
    """Return the end of a grading that an error of ours kept from being judged."""
    bug = JudgeError(repr(error), reason="internal")
    receipt = None if trial is None else judge.failed(trial.case, bug).receipt
    return _Ending(Decision.ungraded("internal"), "service", str(bug), receipt)
