"""Measure whether API and worker keep memory of the trials that they have seen.

    python -m benchmarks.memory [--trials 10000] [--every 1000] [--database sqlite] [--json]

Submits trials to a real service, has them graded by a stub model in a process of its own, and
notes how much memory (resident set, MB) API and worker hold after each thousand. `growth_kb` is
what each holds more at the end than after the first thousand, per thousand trials: noise of the
allocator is tens of kilobytes, a kept receipt or frame would be thousands.
"""

from __future__ import annotations

import argparse
import json
import threading
from typing import Any

from benchmarks.support import empty_database, rss_mb, running_stub, scratch
from grader_service.client.http import Client
from tests.chaos.trials import make_trial
from tests.support.servers import start_redis
from tests.support.stack import Stack

SUBMITTERS = 4


def run(database_kind: str, trials: int, every: int) -> list[dict[str, Any]]:
    """Return one row for each `every` graded trials."""
    rows = []
    with (
        scratch() as folder,
        start_redis(folder) as redis,
        running_stub() as stub,
        empty_database(database_kind, folder) as database,
    ):
        settings = {"AUTOGRADER_DATABASE_URL": database.url}
        stack = Stack(folder, redis.url, {"m": stub.judge()}, settings)
        try:
            stack.start_api()
            stack.start_worker("w1", concurrency=8)
            for done in range(0, trials, every):
                submit(stack.url, range(done, done + every))
                stack.wait_for("bench", timeout_s=1800)
                api, worker = stack.pids()
                rows.append(
                    {
                        "trials": done + every,
                        "api_mb": round(rss_mb(api), 1),
                        "worker_mb": round(rss_mb(worker), 1),
                    }
                )
        finally:
            stack.close()
    return rows


def submit(url: str, numbers: range) -> None:
    rest = iter(numbers)

    def some() -> None:
        with Client(url) as client:
            for number in rest:
                trial = make_trial(0, number, run="bench")
                client.submit(trial.form, trial.frames)

    threads = [threading.Thread(target=some) for _ in range(SUBMITTERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--every", type=int, default=1000)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = run(arguments.database, arguments.trials, arguments.every)
    thousands = max(1, (rows[-1]["trials"] - rows[0]["trials"]) / 1000)
    growth = {
        name: round(1000 * (rows[-1][f"{name}_mb"] - rows[0][f"{name}_mb"]) / thousands)
        for name in ("api", "worker")
    }
    if arguments.json:
        print(json.dumps({"rows": rows, "growth_kb": growth}, indent=1))
        return
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items()))
    print("growth_kb  " + "  ".join(f"{name} {value}" for name, value in growth.items()))


if __name__ == "__main__":
    main()
