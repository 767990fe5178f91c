"""The pinned text of two prompts, and for every version of the prompt the digests that it had.

python tests/golden/prompts/pin.py   write them anew, after PROMPT_VERSION was given a new number

Rubrics and trials are written out here, so that the texts change with the prompt and nothing else.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2]))

from grader_service.judging.prompt import (  # noqa: E402 - path first
    PROMPT_VERSION,
    REPLY_SCHEMA,
    LabelledFrame,
    Marks,
    Prompt,
    bundle_prompt,
    frames_prompt,
)
from grader_service.judging.rubric import rubric_from_json  # noqa: E402
from grader_service.providers.base import Image  # noqa: E402
from grader_service.records.canonical import digest  # noqa: E402
from grader_service.records.trajectory import parse_trajectory  # noqa: E402
from grader_service.scoring.a320 import judge_bundle  # noqa: E402

VERSIONS = HERE / "versions.json"
MARKS = Marks.of(b"pinned", "trial", 0)
FRAMES = {
    "id": "pinned/frames",
    "title": "Cube in the square",
    "expectation": "The red cube lies completely inside the green square and nothing holds it.",
    "criteria": [
        {"id": "in_goal", "text": "In the LAST frame the cube lies inside the square."},
        {"id": "released", "text": "In the LAST frame the gripper does not touch the cube."},
        {"id": "intact", "text": "No other object was knocked over.", "required": False},
    ],
    "failure_modes": ["missed_grasp", "dropped", "other"],
}
BUNDLE = {
    "id": "pinned/bundle",
    "kind": "bundle",
    "title": "Handled by the book",
    "expectation": "The fault was found and handled in the order of the procedure.",
    "criteria": [
        {"id": "found", "text": "The report names the fault that was injected."},
        {"id": "handled", "text": "The commands follow the procedure."},
        {"id": "honest", "text": "The report claims nothing that the facts deny."},
    ],
    "decision": {"at_least": 2},
}


def frames_text() -> str:
    shots = [("front", "first"), ("overhead", "first"), ("front", "parked"), ("overhead", "parked")]
    frames = [LabelledFrame(camera, phase, Image("image/jpeg", b"")) for camera, phase in shots]
    prompt = frames_prompt(
        instruction="Pick up the red cube and place it on the green square.",
        rubric=rubric_from_json(FRAMES),
        frames=frames,
        marks=MARKS,
    )
    return _written(prompt)


def bundle_text() -> str:
    trajectory = HERE.parents[1] / "data" / "a320" / "g17_apu_errored_commands.jsonl"
    bundle = judge_bundle(parse_trajectory(trajectory.read_bytes()))
    assert bundle is not None
    return _written(bundle_prompt(bundle=bundle, rubric=rubric_from_json(BUNDLE), marks=MARKS))


def _written(prompt: Prompt) -> str:
    """Return all that is sent in the order of sending, images by their type."""
    parts = [part if isinstance(part, str) else f"[{part.media_type}]" for part in prompt.parts]
    sections = {
        "system": prompt.system,
        "user": "\n\n".join(parts),
        "closing, where JSON can be asked for": str(prompt.ask("json_schema")[-1]),
        "closing, where only text can": str(prompt.ask("text")[-1]),
        "schema": json.dumps(REPLY_SCHEMA, indent=1),
    }
    return "".join(f"=== {name}\n{text}\n\n" for name, text in sections.items())


def pins() -> dict[str, str]:
    """Return the texts per file name."""
    return {"frames.txt": frames_text(), "bundle.txt": bundle_text()}


def digests() -> dict[str, str]:
    return {name: digest(text.encode()) for name, text in pins().items()}


if __name__ == "__main__":
    known = json.loads(VERSIONS.read_text("utf-8")) if VERSIONS.exists() else {}
    if known.setdefault(PROMPT_VERSION, digests()) != digests():
        sys.exit(f"{PROMPT_VERSION} is another text: give PROMPT_VERSION a new number first")
    VERSIONS.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    for file, text in pins().items():
        (HERE / file).write_text(text, encoding="utf-8")
