"""Measure what grading costs a robot: time per trial, memory of its process, bytes from its rig.

    python -m benchmarks.harness [--trials 5] [--steps 30] [--json]

The same evaluation runs with the harness' own `vlm` grader, which asks a stub model that takes
1.0 s, with the grader `autograder`, whose service asks that same model, and with no grader. Each
has a process of its own. Two cameras, frames like photographs (smooth, with the noise of a sensor),
images kept in memory as the harness does by default.

`held_ms` is how long `grade()` keeps the harness, the median over trials and the worst one; bytes
are counted by a relay between the process and whom it talks to, per trial.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from socket import SHUT_WR, create_connection, create_server, socket
from typing import Any, Final
from urllib.parse import urlsplit

from benchmarks.support import ROOT, running_stub, scratch
from tests.support.servers import start_redis
from tests.support.stack import running

SIZES: Final = {"640x480": (480, 640), "1280x720": (720, 1280)}
GRADERS: Final = ("none", "vlm", "autograder")
CAMERAS: Final = ("front", "wrist")
LATENCY_S: Final = 1.0


class Relay:
    """Passes TCP on to an address and counts the bytes that go there."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._to = (parts.hostname, parts.port)
        self._server = create_server(("127.0.0.1", 0))
        port = self._server.getsockname()[1]
        self.url = parts._replace(netloc=f"127.0.0.1:{port}").geturl()
        self.sent = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            far = create_connection(self._to)
            for source, sink, counts in ((near, far, True), (far, near, False)):
                threading.Thread(
                    target=self._pass_on, args=(source, sink, counts), daemon=True
                ).start()

    def _pass_on(self, source: socket, sink: socket, counts: bool) -> None:
        try:
            while data := source.recv(1 << 16):
                self.sent += len(data) if counts else 0
                sink.sendall(data)
            sink.shutdown(SHUT_WR)
        except OSError:
            return


@contextmanager
def relay(url: str) -> Iterator[Relay]:
    made = Relay(url)
    try:
        yield made
    finally:
        made.close()


# --- the harness' process ------------------------------------------------------------------------


def rig(shape: tuple[int, int]) -> Any:
    """Return a robot whose cameras give pictures of this height and width, new ones each time."""
    import numpy as np
    from inspect_robots.mock.cubepick import CubePickEmbodiment

    rng = np.random.default_rng(0)
    height, width = shape
    slopes = [np.linspace(40, 200, n) for n in (height, width)]
    smooth = (slopes[0][:, None] + slopes[1][None, :])[:, :, None] / 2 + np.array([0, 20, 40])
    photos = [
        np.clip(smooth + rng.normal(0, 4, (*shape, 3)), 0, 255).astype(np.uint8) for _ in range(8)
    ]

    class Rig(CubePickEmbodiment):
        taken = 0

        def _observe(self, instruction: Any) -> Any:
            images = {}
            for camera in CAMERAS:
                self.taken += 1
                images[camera] = photos[self.taken % len(photos)].copy()
            return replace(super()._observe(instruction), images=images)

    return Rig()


def measure(
    kind: str, size: str, url: str, folder: Path, *, trials: int, steps: int
) -> dict[str, Any]:
    """Evaluate in this process; return what it cost."""
    import inspect_robots
    from inspect_robots.grader import vlm_grader
    from inspect_robots.scene import Scene
    from inspect_robots.task import Task

    from grader_service.plugins.inspect_robots import autograder

    grader: Any = None
    if kind == "vlm":
        grader = vlm_grader("m", base_url=url, api_key_env="HOME")
    elif kind == "autograder":
        grader = autograder(url=url, run=f"bench-{size}", spool=str(folder / "spool"), flush=60)
    held: list[float] = []

    def timed(record: Any, scene: Any) -> None:
        start = time.perf_counter()
        if grader is not None:
            grader.grade(record, scene)
        held.append(time.perf_counter() - start)

    scenes = [Scene(f"s{number}", "Put the cube into the goal area.") for number in range(trials)]
    start = time.perf_counter()
    inspect_robots.eval(
        Task("bench", scenes, "operator", max_steps=steps),
        "noop",
        rig(SIZES[size]),
        before_scoring=timed,
        log_dir=str(folder / "logs"),
    )
    return {
        "held": held,
        "seconds": time.perf_counter() - start,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


# --- comparing -----------------------------------------------------------------------------------


def run_child(kind: str, size: str, url: str, trials: int, steps: int) -> dict[str, Any]:
    """Measure in a new process, and count the bytes that it sends."""
    with scratch() as folder, relay(url) as passing:
        arguments = ["--child", kind, size, passing.url, str(folder)]
        counts = ["--trials", str(trials), "--steps", str(steps)]
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.harness", *arguments, *counts],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        found = json.loads(done.stdout)
        held = [1000 * seconds for seconds in found["held"]]
        return {
            "grader": kind,
            "size": size,
            "held_ms": statistics.median(held),
            "worst_ms": max(held),
            "seconds": found["seconds"],
            "peak_mb": found["peak_mb"],
            "sent_mb": passing.sent / trials / 1e6,
        }


def compare(trials: int, steps: int) -> list[dict[str, Any]]:
    """Return a row for each grader and size."""
    with (
        scratch() as folder,
        start_redis(folder) as redis,
        running_stub(latency=LATENCY_S) as stub,
        running(folder / "home", redis.url, {"stub": stub.judge()}) as stack,
    ):
        urls = {"none": stack.url, "vlm": stub.url, "autograder": stack.url}
        return [
            run_child(kind, size, urls[kind], trials, steps) for size in SIZES for kind in GRADERS
        ]


def show(rows: Sequence[dict[str, Any]]) -> None:
    """Print a table, and what the time comes to against the harness' own grader."""
    print("| frames | grader | held, median | worst | run | peak memory | sent per trial |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row['size']} | {row['grader']} | {row['held_ms']:.1f} ms"
            f" | {row['worst_ms']:.1f} ms | {row['seconds']:.1f} s"
            f" | {row['peak_mb']:.0f} MB | {row['sent_mb']:.2f} MB |"
        )
    held = {(row["size"], row["grader"]): row["held_ms"] for row in rows}
    for size in SIZES:
        print(f"{size}: vlm / autograder = {held[size, 'vlm'] / held[size, 'autograder']:.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        kind, size, url, folder = given.child
        found = measure(kind, size, url, Path(folder), trials=given.trials, steps=given.steps)
        print(json.dumps(found))
        return
    rows = compare(given.trials, given.steps)
    if given.json:
        print(json.dumps(rows))
    else:
        show(rows)


if __name__ == "__main__":
    main()
