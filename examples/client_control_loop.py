"""Submit trials from a control loop that must not wait for anybody.

    python examples/client_control_loop.py --run rig7 --trials 100

The loop runs at 100 Hz, a trial ends every five ticks, and what it leaves (two camera frames) is
sent while the next one runs. The longest tick is printed: the robot's, not the service's.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import sys
import time

import numpy as np
from PIL import Image

from grader_service.client import DEFAULT_URL, AsyncClient, RunEnded, SummaryChanged
from grader_service.errors import AutograderError

TICK_S = 0.01
TICKS_PER_TRIAL = 5
# As many as a rig's network carries well; the rest wait their turn in memory.
UPLOADS_AT_ONCE = 8


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", default="rig7")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--url", default=DEFAULT_URL)
    arguments = parser.parse_args()

    uploads = asyncio.Semaphore(UPLOADS_AT_ONCE)
    longest = 0.0
    async with AsyncClient(arguments.url, retry_s=60) as client:
        # Before the robot moves: first uses load code and connect, which takes many ticks.
        await client.readiness()
        as_png(camera_frame(0))
        async with asyncio.TaskGroup() as background:
            for number in range(arguments.trials):
                first = camera_frame(number)
                for _ in range(TICKS_PER_TRIAL):
                    begun = time.perf_counter()
                    await asyncio.sleep(TICK_S)  # the robot moves
                    longest = max(longest, time.perf_counter() - begun - TICK_S)
                frames = {"first": first, "last": camera_frame(number + 1)}
                background.create_task(submit(client, uploads, arguments.run, number, frames))
        late = f"the loop was late by {longest * 1000:.1f} ms at most"
        print(f"{arguments.trials} trials submitted; {late}")

        async for event in client.progress(arguments.run, trials=False):
            match event:
                case SummaryChanged(summary):
                    print(f"pending: {summary['pending']['n']}")
                case RunEnded(summary):
                    print(
                        f"graded {summary['graded']['n']}, abstained {summary['abstained']['n']}, "
                        f"ungraded {summary['ungraded']['n']} of {summary['trials']}"
                    )


async def submit(
    client: AsyncClient,
    uploads: asyncio.Semaphore,
    run: str,
    number: int,
    frames: dict[str, np.ndarray],
) -> None:
    """Send one trial. Its client id makes it safe to send twice. Nothing ends the loop."""
    trial = {
        "kind": "robot",
        "run": run,
        "client_id": f"{run}/{number}",
        "scene": {"id": f"scene-{number % 10}", "instruction": "Place the cube on the square."},
        "epoch": number // 10,
        "frames": [{"camera": "front", "phase": phase, "part": phase} for phase in frames],
    }
    async with uploads:
        parts = {phase: await asyncio.to_thread(as_png, frame) for phase, frame in frames.items()}
        try:
            await client.submit(trial, parts)
        except AutograderError as error:
            print(f"trial {number} is lost: {error}", file=sys.stderr)


def camera_frame(number: int) -> np.ndarray:
    """Return what the camera sees: here a red cube on its way."""
    frame = np.full((240, 320, 3), 200, dtype=np.uint8)
    frame[100:140, number % 280 : number % 280 + 40] = (200, 30, 30)
    return frame


def as_png(frame: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(frame).save(buffer, format="PNG")
    return buffer.getvalue()


if __name__ == "__main__":
    asyncio.run(main())
