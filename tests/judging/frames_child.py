"""Prints, for every file named on the command line, what becomes of it as a frame.

One JSON object per line. Each file is handled in a forked process of its own, whose address space
is limited, and whose peak memory beyond what it started with is reported in MB.
"""

from __future__ import annotations

import io
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from grader_service.errors import FrameError
from grader_service.judging.frames import inspect_frame, prepare_frame

ADDRESS_SPACE = 3 << 29  # 1.5 GiB


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def outcome(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    start = peak_mb()
    found: dict[str, Any] = {"name": path.name, "refused_by": None}
    try:
        info = inspect_frame(data)
        found |= {"media_type": info.media_type, "stored": [info.width, info.height]}
        found["inspect_mb"] = peak_mb() - start
        frame = prepare_frame(data)
    except FrameError as error:
        found["refused_by"] = "prepare" if "stored" in found else "inspect"
        found |= {"message": error.message, "fix": error.fix}
    else:
        sent = Image.open(io.BytesIO(frame.data))
        found |= {
            "size": [frame.width, frame.height],
            "sent": [sent.format, sent.mode, *sent.size],
            "mean": np.asarray(sent, dtype=float).mean(axis=(0, 1)).tolist(),
            "flags": frame.flags,
            "sha256_sent": frame.sha256_sent,
        }
    found.setdefault("inspect_mb", peak_mb() - start)
    found["total_mb"] = peak_mb() - start
    return found


def main() -> None:
    Image.init()  # or the first file of each process would be charged for loading the decoders
    for argument in sys.argv[1:]:
        if os.fork() == 0:
            resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
            print(json.dumps(outcome(Path(argument))), flush=True)
            os._exit(0)
        _, status = os.wait()
        if status:
            sys.exit(f"{argument}: ended with status {status}")


if __name__ == "__main__":
    main()
