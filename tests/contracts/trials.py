"""Trials that differ from each other, so that no answer of one is another's, and a slow judge."""

from __future__ import annotations

import io
import random
from typing import Any

from PIL import Image

from grader_service.providers.stub import StubModel


def robot_trial(number: int, *, run: str = "r") -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return a trial and its parts, as `Client.submit` takes them."""
    trial = {
        "kind": "robot",
        "run": run,
        "client_id": f"{run}-{number:04}",
        "scene": {"id": f"scene-{number:04}", "instruction": f"Put block {number} away."},
        "frames": [
            {"camera": "front", "phase": "first", "part": "f0"},
            {"camera": "front", "phase": "last", "part": "f1"},
        ],
    }
    return trial, {"f0": _picture(2 * number), "f1": _picture(2 * number + 1)}


def _picture(seed: int) -> bytes:
    noise = random.Random(seed).randbytes(96 * 72 * 3)
    data = io.BytesIO()
    Image.frombytes("RGB", (96, 72), noise).save(data, "PNG")
    return data.getvalue()


def answer_after(model: StubModel, seconds: float) -> None:
    """Make a model answer each question that comes from now on so much later, with success."""
    rule = {"match": {}, "per_key": True, "replies": [{"verdict": "success"}]}
    model.script([rule | {"latency": seconds}])
