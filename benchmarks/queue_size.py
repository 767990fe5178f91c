"""Measure whether a long queue makes the work on one trial slower.

    python -m benchmarks.queue_size [--rows 1000 10000 100000] [--database sqlite postgresql]
                                    [--repeat 100] [--json]

With so many queued trials of ten runs in the database, milliseconds of wall time of

    submit      the use case behind POST /v1/trials, for a trial without frames
    round       a round of the pump: leases, publishing up to 64 ids
    claim       taking a published trial
    finish      storing its verdict and receipt

each the tenth percentile over repetitions, which other work on the machine disturbs least. Commits
are not synced and blobs are kept in memory: waiting for the disk takes the same time whatever the
size, and would hide what grows. `growth` is the last time over the first.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import event, insert, select, text

from benchmarks.support import empty_database, scratch
from grader_service.bootstrap import build_service, build_worker
from grader_service.grading.pump import Pump
from grader_service.grading.service import Service
from grader_service.grading.submit import RobotSubmission, submit
from grader_service.records.trial import Scene
from grader_service.records.verdict import Decision
from grader_service.settings import Settings
from grader_service.storage import gradings, verdicts
from grader_service.storage.blobs import BlobStore
from grader_service.storage.database import Database
from grader_service.storage.ids import new_id
from grader_service.storage.tables import gradings as gradings_table
from grader_service.storage.tables import trials as trials_table

RUNS = 10
STEPS = ("submit", "round", "claim", "finish")
JUDGES = {"m": {"provider": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}}


class Kept:
    """A queue that keeps what is published, and always has room."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def publish(self, grading_ids: Sequence[str]) -> None:
        self.ids += grading_ids

    def depth(self) -> int:
        return 0

    def lost_data(self) -> bool:
        return False


def unsynced(database: Database) -> None:
    """Let commits return before they are on the disk."""
    statement = (
        "PRAGMA synchronous=OFF" if database.is_sqlite else "SET SESSION synchronous_commit = off"
    )
    database.engine.dispose()

    @event.listens_for(database.engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        cursor.execute(statement)
        cursor.close()
        if not database.is_sqlite:
            connection.commit()


def fill(service: Service, rows: int, *, start: int) -> None:
    """Add queued trials until there are `rows` of them: copies of one that was submitted."""
    database = service.database
    template = submit(service, frameless("run-0", start)).id
    with database.write() as unit:
        trial = unit.execute(select(trials_table).where(trials_table.c.id == template)).one()
        grading = unit.execute(
            select(gradings_table).where(gradings_table.c.trial_id == template)
        ).one()
        for first in range(start + 1, rows, 1000):
            numbers = range(first, min(rows, first + 1000))
            of_trials = [
                trial._asdict()
                | {"id": new_id(), "run": f"run-{number % RUNS}", "client_id": new_id()}
                for number in numbers
            ]
            of_gradings = [
                grading._asdict() | {"id": new_id(), "trial_id": row["id"], "run": row["run"]}
                for row in of_trials
            ]
            unit.execute(insert(trials_table), of_trials)
            unit.execute(insert(gradings_table), of_gradings)
    if not database.is_sqlite:
        # As autovacuum does it within a minute.
        with database.write() as unit:
            unit.execute(text("ANALYZE"))


def frameless(run: str, number: int) -> RobotSubmission:
    scene = Scene(id="s", instruction="Put the cube into the goal area.")
    return RobotSubmission(run=run, scene=scene, epoch=number, frames=(), client_id=new_id())


def measure(service: Service, pump: Pump, queue: Kept, repeat: int) -> dict[str, float]:
    database = service.database
    times: dict[str, list[float]] = {step: [] for step in STEPS}

    def timed(step: str, work: Callable[..., Any], *arguments: Any) -> Any:
        start = time.perf_counter()
        result = work(*arguments)
        times[step].append(1000 * (time.perf_counter() - start))
        return result

    for number in range(repeat):
        timed("submit", submit, service, frameless("run-0", number))
        timed("round", pump.round)
        for grading_id in queue.ids[:4]:
            claim = timed("claim", claim_one, database, grading_id)
            timed("finish", finish_one, database, claim)
        queue.ids.clear()
    return {step: round(statistics.quantiles(found, n=10)[0], 2) for step, found in times.items()}


def claim_one(database: Database, grading_id: str) -> gradings.Claim:
    with database.write() as unit:
        claim = gradings.claim(unit, grading_id, owner="w", lease_s=600)
    assert claim is not None
    return claim


def finish_one(database: Database, claim: gradings.Claim) -> None:
    decision = Decision.graded("success")
    with database.write() as unit:
        assert gradings.finish(unit, claim, decision, judge_digest="d")
        verdicts.append(
            unit,
            trial_id=claim.trial_id,
            grading_id=claim.id,
            source="stub",
            decision=decision,
            receipt={"schema": "receipt/1", "trial": claim.trial_id, "reply": "x" * 2000},
        )


def table(kind: str, sizes: Sequence[int], repeat: int, folder: Path) -> dict[str, Any]:
    """Return the times of each step at each size, and their growth."""
    settings = Settings.load(home=folder, judges=JUDGES, concurrency=16)
    with empty_database(kind, folder) as database:
        unsynced(database)
        service = build_service(settings, database=database, blobs=BlobStore("memory:"))
        queue = Kept()
        worker = build_worker(settings, database=database, blobs=service.blobs, queue=queue)
        measured: dict[int, dict[str, float]] = {}
        filled = 0
        for size in sizes:
            fill(service, size, start=filled)
            filled = size
            measure(service, worker.pump, queue, 5)
            measured[size] = measure(service, worker.pump, queue, repeat)
    growth = {
        step: round(measured[sizes[-1]][step] / measured[sizes[0]][step], 2) for step in STEPS
    }
    return {"database": kind, "ms": measured, "growth": growth}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--database", nargs="+", default=["sqlite", "postgresql"])
    parser.add_argument("--repeat", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = []
    for kind in arguments.database:
        with scratch() as folder:
            found.append(table(kind, arguments.rows, arguments.repeat, folder))
    if arguments.json:
        print(json.dumps(found, indent=1))
        return
    for one in found:
        print(one["database"])
        print(f"{'rows':>10}" + "".join(f"{step:>10}" for step in STEPS))
        for size, row in one["ms"].items():
            print(f"{size:>10}" + "".join(f"{row[step]:>10}" for step in STEPS))
        print(f"{'growth':>10}" + "".join(f"{one['growth'][step]:>10}" for step in STEPS))


if __name__ == "__main__":
    main()
