"""Measure what preparing a frame for a judge costs and saves.

    python benchmarks/frame_preparation.py [--frames 12] [--rounds 5] [--json]

The frames are those of the sample trials: 640x480 as they are, 1280x720 cropped, doubled and given
the sensor noise that doubling removed. Each is received as PNG and as JPEG. Times are CPU
milliseconds per frame, the median over frames of the least of several rounds:

    inspect     what submission does: header and sha256
    decode      to pixels
    normalise   upright, RGB, at most 768 px
    encode      as JPEG
    prepare     prepare_frame as a whole, with its own inspection

`sent_kb` and `png_kb` are sizes as data URIs, base64 included: of what is sent, and of the same
frame as PNG at full size.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import statistics
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from grader_service.judging.frame_prepare import LONG_EDGE, MAX_BYTES, decode, encode, normalise
from grader_service.judging.frames import inspect_frame, prepare_frame

if TYPE_CHECKING:
    from collections.abc import Callable

TRIALS = Path(__file__).parents[1] / "examples" / "trials"


def cpu_ms(work: Callable[[], object], rounds: int) -> float:
    """Return the least CPU time of several rounds, in milliseconds."""
    spent = []
    for _ in range(rounds):
        start = time.process_time_ns()
        work()
        spent.append(time.process_time_ns() - start)
    return min(spent) / 1e6


def doubled(frame: Image.Image) -> Image.Image:
    wide = frame.crop((0, 60, 640, 420)).resize((1280, 720), Image.Resampling.LANCZOS)
    noise = np.random.default_rng(0).normal(0, 2, (720, 1280, 3))
    return Image.fromarray(np.clip(np.asarray(wide) + noise, 0, 255).astype(np.uint8))


def file_of(frame: Image.Image, image_format: str) -> bytes:
    buffer = io.BytesIO()
    frame.save(buffer, image_format, quality=90)
    return buffer.getvalue()


def uri_kb(media_type: str, data: bytes) -> float:
    return len(f"data:{media_type};base64,{base64.b64encode(data).decode()}") / 1000


def measure(frame: Image.Image, image_format: str, rounds: int) -> dict[str, float]:
    data = file_of(frame, image_format)
    media_type = inspect_frame(data).media_type
    normalise_ms = []
    for _ in range(rounds):
        image = decode(data, media_type, LONG_EDGE)  # each time anew: it is scaled in place
        normalise_ms.append(cpu_ms(partial(normalise, image, LONG_EDGE), 1))
    picture, _ = normalise(decode(data, media_type, LONG_EDGE), LONG_EDGE)
    times = {
        "inspect_ms": cpu_ms(lambda: inspect_frame(data), rounds),
        "decode_ms": cpu_ms(lambda: decode(data, media_type, LONG_EDGE), rounds),
        "normalise_ms": min(normalise_ms),
        "encode_ms": cpu_ms(lambda: encode(picture, MAX_BYTES), rounds),
        "prepare_ms": cpu_ms(lambda: prepare_frame(data), rounds),
    }
    sent = prepare_frame(data)
    sizes = {
        "sent_kb": uri_kb(sent.media_type, sent.data),
        "png_kb": uri_kb("image/png", file_of(frame, "PNG")),
    }
    return times | sizes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--frames", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()

    paths = sorted(TRIALS.glob("*/final_front.*"))[: arguments.frames]
    frames = [Image.open(path).convert("RGB") for path in paths]
    rows: list[dict[str, Any]] = []
    for size, pictures in {
        "640x480": frames,
        "1280x720": [doubled(frame) for frame in frames],
    }.items():
        for image_format in ("PNG", "JPEG"):
            found = [measure(picture, image_format, arguments.rounds) for picture in pictures]
            row: dict[str, Any] = {"size": size, "received": image_format, "frames": len(found)}
            for name in found[0]:
                row[name] = round(statistics.median(one[name] for one in found), 2)
            row["png_over_sent"] = round(row["png_kb"] / row["sent_kb"], 1)
            rows.append(row)
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    print("  ".join(f"{name:>12}" for name in rows[0]))
    for row in rows:
        print("  ".join(f"{value!s:>12}" for value in row.values()))


if __name__ == "__main__":
    main()
