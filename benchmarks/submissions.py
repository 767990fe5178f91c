"""Measure how many submissions a second the API takes, against the least that could be done.

    python -m benchmarks.submissions [--trials 400] [--connections 16] [--rounds 3]
                                     [--database sqlite] [--json]

A submission is a trial with four 640x480 frames that nobody sent before. The API parses and checks
it, stores five blobs durably and commits a transaction; the yardstick (benchmarks/bare_app.py)
reads the same multipart body, and writes and syncs its five parts as files. Both run under the
same server in one process, on the same disk, asked by the same client over as many connections;
they take turns, and of each the best round counts.

`share` is submissions per second of the API over those of the yardstick; `cpu_ms` is what the
server process spends on one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

from benchmarks.support import ROOT, cpu_s, empty_database, frames, scratch
from grader_service.cli.processes import free_port, wait_for_port
from grader_service.storage.database import Database

BOUNDARY: Final = "benchmark-boundary"
_numbers = count(1)


def body() -> bytes:
    """Return the body of a submission that is like no other."""
    number = next(_numbers)
    named = {f"f{at}": frame for at, frame in enumerate(frames(number))}
    trial = {
        "kind": "robot",
        "run": "bench",
        "client_id": f"rig-{number}",
        "scene": {"id": f"s{number % 24}", "instruction": "Put the cube into the goal area."},
        "epoch": number,
        "rubric": "robot/place-in-goal",
        "frames": [
            {"camera": frame.camera, "phase": frame.phase, "part": name}
            for name, frame in named.items()
        ],
    }
    parts = [part("trial", json.dumps(trial).encode())]
    parts += [part(name, numbered(frame.data, number)) for name, frame in named.items()]
    return b"".join([*parts, f"--{BOUNDARY}--\r\n".encode()])


def part(name: str, data: bytes) -> bytes:
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"; filename="{name}"\r\n'
    return f"{head}Content-Type: application/octet-stream\r\n\r\n".encode() + data + b"\r\n"


def numbered(jpeg: bytes, number: int) -> bytes:
    """Return a JPEG with a number in a comment, so that its bytes are new."""
    return jpeg[:2] + b"\xff\xfe\x00\x0a" + number.to_bytes(8, "big") + jpeg[2:]


async def send_all(port: int, bodies: list[bytes], connections: int) -> tuple[float, list[float]]:
    """Send every body once; return the seconds that took, and those of each submission."""
    waiting = iter(bodies)
    times: list[float] = []

    async def connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for one in waiting:
            start = time.perf_counter()
            head = (
                "POST /v1/trials HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                f"Content-Type: multipart/form-data; boundary={BOUNDARY}\r\n"
                f"Content-Length: {len(one)}\r\n\r\n"
            )
            writer.write(head.encode() + one)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line.split(b":")[1])
                for line in answer.lower().split(b"\r\n")
                if line.startswith(b"content-length")
            )
            said = await reader.readexactly(length)
            if not answer.startswith(b"HTTP/1.1 202"):
                raise RuntimeError(f"not taken: {answer!r} {said!r}")
            times.append(time.perf_counter() - start)
        writer.close()

    start = time.perf_counter()
    await asyncio.gather(*(connection() for _ in range(connections)))
    return time.perf_counter() - start, times


@contextlib.contextmanager
def server(arguments: list[str], port: int, **environment: str) -> Iterator[int]:
    """Run a server until the block ends; give its process id."""
    child = subprocess.Popen(arguments, cwd=ROOT, env=os.environ | environment)
    try:
        if not wait_for_port(port):
            raise RuntimeError("the server did not start")
        yield child.pid
    finally:
        child.terminate()
        child.wait()


def api(port: int, folder: Path, database: Database) -> contextlib.AbstractContextManager[int]:
    return server(
        [sys.executable, "-m", "grader_service.cli.main", "serve", "--port", str(port)],
        port,
        AUTOGRADER_HOME=str(folder),
        AUTOGRADER_DATABASE_URL=database.engine.url.render_as_string(hide_password=False),
    )


def yardstick(port: int, folder: Path) -> contextlib.AbstractContextManager[int]:
    app = ["uvicorn", "benchmarks.bare_app:app", "--port", str(port), "--log-level", "warning"]
    (folder / "bare").mkdir()
    return server(
        [sys.executable, "-m", *app, "--no-access-log"], port, BARE_FOLDER=str(folder / "bare")
    )


def measure(port: int, pid: int, trials: int, connections: int) -> dict[str, float]:
    bodies = [body() for _ in range(trials)]
    before = cpu_s(pid)
    seconds, times = asyncio.run(send_all(port, bodies, connections))
    return {
        "per_s": round(trials / seconds, 1),
        "p50_ms": round(1000 * statistics.median(times), 1),
        "p99_ms": round(1000 * statistics.quantiles(times, n=100)[98], 1),
        "cpu_ms": round(1000 * (cpu_s(pid) - before) / trials, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()

    rounds: dict[str, list[dict[str, float]]] = {"api": [], "bare": []}
    ports = {"api": free_port(), "bare": free_port()}
    with (
        scratch() as folder,
        empty_database(arguments.database, folder) as database,
        api(ports["api"], folder, database) as api_pid,
        yardstick(ports["bare"], folder) as bare_pid,
    ):
        pids = {"api": api_pid, "bare": bare_pid}
        for name, pid in pids.items():
            measure(ports[name], pid, 50, arguments.connections)
        for _ in range(arguments.rounds):
            for name, found in rounds.items():
                found.append(
                    measure(ports[name], pids[name], arguments.trials, arguments.connections)
                )
    best = {name: max(found, key=lambda one: one["per_s"]) for name, found in rounds.items()}
    result: dict[str, Any] = {
        "trials": arguments.trials,
        "connections": arguments.connections,
        "database": arguments.database,
        **best,
        "share": round(best["api"]["per_s"] / best["bare"]["per_s"], 2),
        "rounds": {name: [one["per_s"] for one in found] for name, found in rounds.items()},
    }
    print(json.dumps(result, indent=1 if arguments.json else None))


if __name__ == "__main__":
    main()
