"""What is fuzzed: for each reader its seeds, and a check that fails for any way but a listed one.

A check raises only when something is wrong: an exception that is none of ours, an outcome that is
on no list, or a value that can't be stored.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from starlette.requests import Request
from starlette.types import Message

from grader_service.api.body import Limits, read_parts
from grader_service.errors import AutograderError, FrameError, RecordError, TrajectoryError
from grader_service.judging.frames import inspect_frame, is_blank, prepare_frame
from grader_service.judging.prompt import Marks, bundle_prompt
from grader_service.judging.reply import parse_reply
from grader_service.judging.rubric import library_rubric, rubric_from_json
from grader_service.judging.wire import WIRES
from grader_service.records.canonical import canonical_bytes, digest
from grader_service.records.saved import RECORD_PATH, load_trial, save_trial
from grader_service.records.strict_json import strict_loads
from grader_service.records.trajectory import parse_trajectory, with_judgement
from grader_service.records.trial import (
    Action,
    Observation,
    Scene,
    StepRecord,
    StepResult,
    TrialRecord,
)
from grader_service.records.verdict import ABSTAINED_REASONS, UNGRADED_REASONS, Decision
from grader_service.scoring.a320 import score_trajectory

DATA: Final = Path(__file__).parents[1] / "tests" / "data"


@dataclass(frozen=True)
class Target:
    """A reader. `json` says that its input is JSON, or lines of it, as a whole."""

    check: Callable[[bytes], None]
    seeds: Callable[[], Iterator[bytes]]
    json: bool = False
    max_len: int = 65_536


# --- replies ---------------------------------------------------------------------------------

_RUBRIC: Final = rubric_from_json(
    {
        "id": "fuzz/place",
        "criteria": [
            {"id": "at_goal", "text": "The cube lies in the square."},
            {"id": "released", "text": "The gripper does not touch the cube."},
        ],
        "failure_modes": ["dropped", "other"],
    }
)
_TOKEN: Final = "t-7f3a9c"  # noqa: S105 - a mark, not a password


def check_reply(data: bytes) -> None:
    """Give the bytes to the grammar as a text, as the text of each wire, and as its whole body."""
    text = data.decode("utf-8", "replace")
    for rubric in (None, _RUBRIC):
        for token in (None, _TOKEN):
            decision = parse_reply("text", data, rubric=rubric, token=token)
            assert decision == parse_reply("text", data, rubric=rubric, token=token)
            _check_decision(decision)
    for wire in WIRES:
        if wire != "text":
            around = parse_reply(wire, _around(wire, text), rubric=_RUBRIC, token=_TOKEN)
            assert around == parse_reply("text", text, rubric=_RUBRIC, token=_TOKEN)
    try:
        whole = strict_loads(data)
    except ValueError:
        return
    canonical_bytes({"reply": whole})  # a receipt has to hold it
    for wire in WIRES:
        _check_decision(parse_reply(wire, whole, rubric=_RUBRIC, token=_TOKEN))


def _check_decision(decision: Decision) -> None:
    allowed: dict[str, tuple[Collection[str | None], Collection[str | None]]] = {
        "graded": (("success", "failure"), (None,)),
        "abstained": (("abstain",), ABSTAINED_REASONS),
        "ungraded": ((None,), UNGRADED_REASONS),
    }
    verdicts, reasons = allowed[decision.outcome]
    assert decision.verdict in verdicts
    assert decision.reason in reasons
    canonical_bytes(asdict(decision))


def _around(wire: str, text: str) -> Any:
    match wire:
        case "openai.chat":
            message = {"role": "assistant", "content": text}
            return {"choices": [{"finish_reason": "stop", "message": message}]}
        case "openai.responses":
            content = [{"type": "output_text", "text": text}]
            return {"status": "completed", "output": [{"type": "message", "content": content}]}
        case _:
            content = [{"type": "text", "text": text}]
            return {"type": "message", "content": content, "stop_reason": "end_turn"}


def reply_seeds() -> Iterator[bytes]:
    for case in json.loads((DATA / "replies" / "cases.json").read_bytes()):
        body = case["input"]["body"]
        yield (body if isinstance(body, str) else json.dumps(body)).encode("utf-8", "replace")


# --- trajectories ----------------------------------------------------------------------------

_BUNDLE_RUBRIC: Final = library_rubric("a320/procedure-reasoning")
_JUDGEMENT: Final = {"outcome": "graded", "verdict": "success", "reason": None, "source": "stub"}


def check_trajectory(data: bytes) -> None:
    """Read and score a trajectory, build the prompt about it, and append a verdict to it."""
    try:
        records = parse_trajectory(data)
        card = score_trajectory(records)
    except TrajectoryError:
        return
    before = card.to_dict() | {"judgement": None}
    assert card.canonical() == score_trajectory(records).canonical()
    bundle = card.judge_bundle()
    if bundle is not None:
        marks = Marks.of(b"fuzz", "trial", 0)
        prompt = bundle_prompt(bundle=bundle, rubric=_BUNDLE_RUBRIC, marks=marks)
        texts = "".join(part for part in prompt.parts if isinstance(part, str))
        assert texts.count(f"</data-{marks.nonce}>") == texts.count(f"<data-{marks.nonce} ")
    judged = parse_trajectory(with_judgement(data, _JUDGEMENT))
    after = score_trajectory(judged).to_dict()
    assert after["judgement"] == _JUDGEMENT
    assert canonical_bytes(after | {"judgement": None}) == canonical_bytes(before)


def trajectory_seeds() -> Iterator[bytes]:
    for path in sorted((DATA / "a320").glob("*.jsonl")):
        yield path.read_bytes()


# --- records ---------------------------------------------------------------------------------

_COLUMN: Final = "0" * 64


def check_record(data: bytes) -> None:
    """Load a record whose first line is record.json and whose rest is an array that it names.

    The array's digest is filled in where record.json has 64 zeros. What loads must save again, to
    a record that loads to the same.
    """
    head, _, column = data.partition(b"\n")
    sha256 = digest(column)
    files = {
        RECORD_PATH: head.replace(_COLUMN.encode(), sha256.encode()),
        f"columns/{sha256}.npy": column,
    }
    try:
        loaded = load_trial(files.__getitem__, check=True)
    except RecordError:
        return
    try:
        saved = save_trial(
            loaded.record,
            loaded.scene,
            frames=loaded.frames,
            instruction_used=loaded.instruction_used,
            planned=loaded.planned,
        )
    except RecordError:
        return  # read, although nothing would have written it
    again = load_trial(saved.__getitem__, check=True)
    assert (
        save_trial(
            again.record,
            again.scene,
            frames=again.frames,
            instruction_used=again.instruction_used,
            planned=again.planned,
        )
        == saved
    )


def record_seeds() -> Iterator[bytes]:
    yield (DATA.parent / "golden" / "robot" / "record.json").read_bytes()
    for count in (0, 1, 40):
        files = save_trial(_trial(count), Scene("s", "Go.", metadata={"n": [1, 0.5, "x", None]}))
        columns = [path for path in files if path != RECORD_PATH]
        record = files[RECORD_PATH].strip()
        for path in columns or [""]:
            sha256 = path.removeprefix("columns/").removesuffix(".npy")
            named = record.replace(sha256.encode(), _COLUMN.encode()) if sha256 else record
            yield named + b"\n" + files.get(path, b"")


def _trial(steps: int) -> TrialRecord:
    noise = np.random.default_rng(0)
    return TrialRecord(
        scene_id="s",
        epoch=0,
        seed=1,
        steps=[
            StepRecord(
                t=t,
                observation=Observation(state={"q": noise.normal(size=7)}),
                action=Action(noise.normal(size=100), meta={"mode": "ab"[t % 2]}),
                result=StepResult(Observation(), reward=float(t), info={"d": 1 / (t + 1)}),
            )
            for t in range(steps)
        ],
        metadata={"float": 1.0, "tuple": (1, b"x"), "big": 2**70},
    )


# --- frames ----------------------------------------------------------------------------------

_SMALL_PIXELS: Final = 300_000


def check_frame(data: bytes) -> None:
    """Inspect a frame, and prepare it if that is quick."""
    try:
        info = inspect_frame(data)
        if info.width * info.height > _SMALL_PIXELS:
            return
        frame = prepare_frame(data, long_edge=64)
    except FrameError:
        return
    assert 0 < max(frame.width, frame.height) <= 64  # noqa: PLR2004 - the long edge
    assert frame.data.startswith(b"\xff\xd8\xff")
    is_blank(frame)


def frame_seeds() -> Iterator[bytes]:
    for path in sorted((DATA / "nasty").iterdir()):
        if path.suffix != ".json" and path.stat().st_size < 65_536:  # noqa: PLR2004 - max_len
            yield path.read_bytes()


# --- multipart bodies ------------------------------------------------------------------------

_LIMITS: Final = Limits(body_bytes=20_000, part_bytes=5_000, parts=6, seconds=5)
_TYPE: Final = b"multipart/form-data; boundary=B"


def check_multipart(data: bytes) -> None:
    """Read a body whole and in small pieces: the same parts or the same error.

    The first line is the Content-Type.
    """
    content_type, _, body = data.partition(b"\n")
    whole = _read(content_type, [body])
    for size in (1, 5):
        # In pieces up to there, the rest at once: what is long takes no longer.
        pieces = [body[start : start + size] for start in range(0, min(len(body), 500), size)]
        rest = body[len(pieces) * size :]
        assert _read(content_type, [*pieces, rest]) == whole
    if isinstance(whole, dict):
        assert len(whole) <= _LIMITS.parts
        assert all(name and len(part) <= _LIMITS.part_bytes for name, part in whole.items())


def _read(content_type: bytes, pieces: list[bytes]) -> dict[str, bytes] | type[Exception]:
    messages: list[Message] = [
        {"type": "http.request", "body": piece, "more_body": True} for piece in pieces
    ]
    messages.append({"type": "http.request", "body": b"", "more_body": False})
    waiting = iter(messages)

    async def receive() -> Message:
        return next(waiting)

    scope = {"type": "http", "headers": [(b"content-type", content_type)]}
    try:
        return _runner().run(read_parts(Request(scope, receive), _LIMITS))
    except AutograderError as error:
        return type(error)


@cache
def _runner() -> asyncio.Runner:
    """One loop for all inputs: making one takes longer than reading a body."""
    return asyncio.Runner()


def multipart_seeds() -> Iterator[bytes]:
    def part(name: str, data: str, more: str = "") -> str:
        head = f'Content-Disposition: form-data; name="{name}"{more}'
        return f"--B\r\n{head}\r\n\r\n{data}\r\n"

    bodies = [
        part("trial", '{"kind": "robot"}') + part("f0", "JFIF", '; filename="a.jpg"') + "--B--\r\n",
        part("trial", "x" * 6000) + "--B--",
        "".join(part(f"p{number}", "x") for number in range(8)) + "--B--\r\n",
        part("a", "1") + part("a", "2") + "--B--\r\n",
        part("", "x") + "--B--\r\n",
        part("a", "--B\r\n\r\n--B--") + "--B--\r\ntrailing",
        part('a\\"b', "x", "; filename*=utf-8''%e2%82%ac") + "--B",
        "preamble\r\n" + part("a", "x") + "--B--\r\n",
    ]
    for body in bodies:
        yield _TYPE + b"\n" + body.encode()
    yield b'multipart/form-data; boundary="a b"; charset=utf-8\n--a b--\r\n'
    yield b"application/json\n{}"


TARGETS: Final = {
    "reply": Target(check_reply, reply_seeds, json=True, max_len=8192),
    "trajectory": Target(check_trajectory, trajectory_seeds, json=True),
    "record": Target(check_record, record_seeds, json=True),
    "frame": Target(check_frame, frame_seeds),
    "multipart": Target(check_multipart, multipart_seeds, max_len=8192),
}
