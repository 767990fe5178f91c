"""Grading rows under anything that workers, brokers, clocks and operators do, in any order.

Beside the database runs a model of a few lines. After every step both agree, so that a write which
should have changed nothing has changed nothing; and wherever a story ends, one ordinary round of
work brings every trial to an end.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import delete, select

from grader_service.records.verdict import Decision
from grader_service.storage import gradings, publishing, verdicts
from grader_service.storage import tables as t
from grader_service.storage.database import Database, Unit
from tests.storage.conftest import Clock
from tests.support.queueing import enqueue

LEASE_S = STALE_S = 30.0
WORKERS = st.sampled_from(["w1", "w2", "w3"])
GRADED = Decision.graded("success")
OUTAGE = Decision.ungraded("provider_unavailable")


@dataclass
class Row:
    """What the model knows of a grading."""

    trial_id: str
    state: str = "queued"
    outcome: str | None = None
    failures: int = 0
    lost_leases: int = 0
    lease_token: str | None = None
    owner: str | None = None
    lease_until: float = 0.0
    not_before: float = 0.0
    published_at: float = 0.0

    def give_up_lease(self, state: str, **changes: Any) -> None:
        self.state, self.lease_token, self.owner = state, None, None
        for name, value in changes.items():
            setattr(self, name, value)


class Gradings(RuleBasedStateMachine):
    """Every operation of the state diagram, by workers that may be dead, frozen or late."""

    # Claims are never forgotten: any of them may turn out to be a zombie's.
    claims = Bundle("claims")

    def __init__(self, database: Database, clock: Clock) -> None:
        super().__init__()
        self.database, self.clock = database, clock
        self.model: dict[str, Row] = {}
        with database.write() as unit:
            for table in (t.verdicts, t.gradings, t.trials):
                unit.execute(delete(table))

    # --- submitting and publishing --------------------------------------------------------------

    @initialize(target=claims)
    def a_trial_is_in_work(self) -> Any:
        self.submit("a", 0)
        return self.take_a_message("w1")

    @rule(run=st.sampled_from("ab"), priority=st.sampled_from([-1, 0, 1]))
    def submit(self, run: str, priority: int) -> None:
        [grading_id] = enqueue(self.database, [run], priority=priority)
        with self.database.read() as unit:
            trial_id = unit.execute(
                select(t.gradings.c.trial_id).where(t.gradings.c.id == grading_id)
            ).scalar_one()
        self.model[grading_id] = Row(trial_id, not_before=self.clock.now)

    @rule(seconds=st.sampled_from([1.0, 10.0, 31.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule(limit=st.integers(1, 4))
    def publish(self, limit: int) -> None:
        self.published(limit)

    def published(self, limit: int) -> list[str]:
        due = {id_ for id_, row in self.model.items() if self.is_publishable(row)}
        with self.database.write() as unit:
            published = publishing.publish_due(unit, judges=["j"], limit=limit, stale_s=STALE_S)
        assert set(published) <= due
        assert len(published) == min(limit, len(due))
        for grading_id in published:
            self.model[grading_id].published_at = self.clock.now
        return published

    @rule()
    def broker_loses_everything(self) -> None:
        with self.database.write() as unit:
            publishing.unpublish(unit)
        for row in self.model.values():
            if row.state == "queued":
                row.published_at = 0.0

    # --- working --------------------------------------------------------------------------------

    def claim(self, grading_id: str, worker: str) -> Any:
        row = self.model[grading_id]
        with self.database.write() as unit:
            claim = gradings.claim(unit, grading_id, owner=worker, lease_s=LEASE_S)
        assert (claim is not None) == self.is_claimable(row)
        if claim is None:
            return multiple()
        row.lost_leases += row.state == "running"
        row.state, row.lease_token, row.owner = "running", claim.token, worker
        row.lease_until = self.clock.now + LEASE_S
        assert (claim.failures, claim.lost_leases) == (row.failures, row.lost_leases)
        return claim

    @rule(target=claims, worker=WORKERS)
    def take_a_message(self, worker: str) -> Any:
        published = self.published(1)
        return self.claim(published[0], worker) if published else multiple()

    @rule(target=claims, claim=claims, worker=WORKERS)
    def take_an_old_message(self, claim: gradings.Claim, worker: str) -> Any:
        return self.claim(claim.id, worker)

    @rule(target=claims, claim=claims, worker=WORKERS)
    def freeze_and_wake_up_too_late(self, claim: gradings.Claim, worker: str) -> Any:
        self.time_passes(LEASE_S + 1)
        successor = self.claim(claim.id, worker)
        self.renew(claim)
        self.fail(claim, 0.0, counts=True)
        self.finish(claim, GRADED)
        return successor

    @rule(claim=claims)
    def renew(self, claim: gradings.Claim) -> None:
        with self.database.write() as unit:
            kept = gradings.renew(unit, {claim.id: claim.token}, lease_s=LEASE_S)
        assert kept == ({claim.id} if self.holds(claim) else set())
        if kept:
            self.model[claim.id].lease_until = self.clock.now + LEASE_S

    @rule(claim=claims, decision=st.sampled_from([GRADED, OUTAGE]))
    def finish(self, claim: gradings.Claim, decision: Decision) -> None:
        with self.database.write() as unit:
            finished = gradings.finish(unit, claim, decision, judge_digest="jd")
            if finished:
                say(unit, claim.trial_id, claim.id, decision)
        assert finished == self.holds(claim)
        if finished:
            self.model[claim.id].give_up_lease("done", outcome=decision.outcome)

    @rule(claim=claims, delay_s=st.sampled_from([0.0, 20.0]), counts=st.booleans())
    def fail(self, claim: gradings.Claim, delay_s: float, *, counts: bool) -> None:
        if counts and claim.failures + 1 >= gradings.MAX_FAILURES:
            return self.finish(claim, OUTAGE)
        with self.database.write() as unit:
            kept = gradings.put_back(unit, claim, delay_s=delay_s, counts=counts, error="503")
        assert kept == self.holds(claim)
        if kept:
            row = self.model[claim.id]
            row.failures += counts
            row.give_up_lease("queued", not_before=self.clock.now + delay_s, published_at=0.0)
        return None

    @rule()
    def reap(self) -> None:
        with self.database.write() as unit:
            for grading_id in gradings.expire_leases(unit):
                trial_id = gradings.end_lost(unit, grading_id)
                assert trial_id is not None
                say(unit, trial_id, grading_id, Decision.ungraded("worker_lost"))
        for row in self.model.values():
            if row.state == "running" and row.lease_until < self.clock.now:
                row.lost_leases += 1
                ended = row.lost_leases >= gradings.MAX_LOST_LEASES
                row.give_up_lease("done" if ended else "queued", published_at=0.0)
                row.outcome = "ungraded" if ended else None

    @rule(worker=WORKERS)
    def worker_is_started_again(self, worker: str) -> None:
        with self.database.write() as unit:
            gradings.release_owner(unit, worker)
        for row in self.model.values():
            if row.owner == worker:
                row.lease_until = 0.0

    @rule(claim=claims)
    def workers_die_on_it_until_none_is_left(self, claim: gradings.Claim) -> None:
        for _ in range(gradings.MAX_LOST_LEASES):
            self.claim(claim.id, "w1")
            self.worker_is_started_again("w1")
        self.reap()

    # --- by request -----------------------------------------------------------------------------

    @rule(claim=claims)
    def cancel(self, claim: gradings.Claim) -> None:
        with self.database.write() as unit:
            cancelled = gradings.cancel(unit, [claim.id])
        row = self.model[claim.id]
        assert cancelled == (row.state in ("queued", "running"))
        if cancelled:
            row.give_up_lease("cancelled")

    @rule(claim=claims)
    def retry(self, claim: gradings.Claim) -> None:
        self.retry_trial(claim.trial_id)

    def retry_trial(self, trial_id: str) -> None:
        newest = [row for row in self.model.values() if row.trial_id == trial_id][-1]
        with self.database.write() as unit:
            queued = gradings.retry(unit, [trial_id])
        assert len(queued) == (newest.state == "cancelled" or newest.outcome == "ungraded")
        self.model |= {new: Row(trial_id, not_before=self.clock.now) for new in queued}

    # --- what always holds ----------------------------------------------------------------------

    @invariant()
    def the_database_is_as_the_model(self) -> None:
        names = [field.name for field in fields(Row)]
        with self.database.read() as unit:
            stored = list(unit.execute(select(t.gradings)))
        assert {
            row.id: Row(**{name: getattr(row, name) for name in names}) for row in stored
        } == self.model

    @invariant()
    def counters_are_bounded(self) -> None:
        for row in self.model.values():
            assert row.failures < gradings.MAX_FAILURES
            assert row.lost_leases <= gradings.MAX_LOST_LEASES

    @invariant()
    def a_grading_has_a_verdict_exactly_when_it_is_done(self) -> None:
        with self.database.read() as unit:
            found = list(unit.execute(select(t.verdicts.c.grading_id)).scalars())
        done = [id_ for id_, row in self.model.items() if row.state == "done"]
        assert sorted(found) == sorted(done)

    def teardown(self) -> None:
        """One round of work ends whatever there is, however it got there."""
        self.one_round()
        for trial_id in {row.trial_id for row in self.model.values()}:
            self.retry_trial(trial_id)
        self.one_round()
        newest = {row.trial_id: row for row in self.model.values()}
        assert all(row.state == "done" for row in newest.values())
        self.the_database_is_as_the_model()

    def one_round(self) -> None:
        self.clock.now += 1000
        self.reap()
        for grading_id in self.published(10_000):
            self.finish(self.claim(grading_id, "w1"), GRADED)
        assert all(row.state in ("done", "cancelled") for row in self.model.values())

    # --- the model's rules ----------------------------------------------------------------------

    def holds(self, claim: gradings.Claim) -> bool:
        return self.model[claim.id].lease_token == claim.token

    def is_claimable(self, row: Row) -> bool:
        if row.state == "running":
            last = row.lost_leases == gradings.MAX_LOST_LEASES - 1
            return row.lease_until < self.clock.now and not last
        return row.state == "queued" and row.not_before <= self.clock.now

    def is_publishable(self, row: Row) -> bool:
        due = row.state == "queued" and row.not_before <= self.clock.now
        return due and row.published_at < self.clock.now - STALE_S


def say(unit: Unit, trial_id: str, grading_id: str, decision: Decision) -> None:
    verdicts.append(unit, trial_id=trial_id, grading_id=grading_id, source="vlm", decision=decision)


def test_whatever_happens_each_grading_ends_once_and_none_is_stuck(
    database: Database, clock: Clock
) -> None:
    class Machine(Gradings):
        def __init__(self) -> None:
            super().__init__(database, clock)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            # A step costs several transactions, on a real server more than in a file.
            max_examples=60 if database.is_sqlite else 15,
            stateful_step_count=30,
            deadline=None,
            # Making a failure shorter would take minutes: the first one found has to do.
            phases=[Phase.reuse, Phase.generate],
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
