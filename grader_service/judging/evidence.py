"""Evidence: what a judge is shown of a trial, and whether there is enough to ask at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from grader_service.errors import FrameError
from grader_service.judging.frame_prepare import MAX_BYTES
from grader_service.judging.frames import PreparedFrame, is_blank, prepare_frame, same_picture
from grader_service.judging.prompt import LabelledFrame, clean
from grader_service.judging.rubric import FrameLimits
from grader_service.providers.base import Image
from grader_service.records.verdict import Decision

# 28 MB of base64 in all, which with the texts stays below 32 MB, the smallest limit per request
# among the providers.
MAX_TOTAL_BYTES: Final = 21_000_000


@dataclass(frozen=True, slots=True)
class Evidence:
    """One stored frame as it was received; `phase` is first, last or parked."""

    camera: str
    phase: str
    sha256: str
    data: bytes

    def __str__(self) -> str:
        return f"{self.phase} frame of camera {self.camera!r}"


@dataclass(frozen=True, slots=True)
class Shown:
    """The frames of one asking, ready to be sent, and what their receipt says."""

    frames: Sequence[LabelledFrame]
    receipt: Sequence[dict[str, Any]]
    flags: Sequence[str]


@dataclass(frozen=True, slots=True)
class Insufficient:
    """Why nothing is asked."""

    decision: Decision
    note: str


def show(frames: Sequence[Evidence], limits: FrameLimits) -> Shown | Insufficient:
    """Prepare the frames to be judged, or say why they can't be.

    A missing last frame is `evidence_missing`; a frame that can't be decoded, and a last frame
    without any contrast, are `evidence_unreadable`. Identical first and last frames are flagged.
    """
    chosen = choose_frames(frames, max_cameras=limits.max_cameras)
    if all(frame.phase == "first" for frame in chosen):
        return Insufficient(Decision.ungraded("evidence_missing"), "no last frame was submitted")
    ready: list[PreparedFrame] = []
    max_bytes = min(MAX_BYTES, MAX_TOTAL_BYTES // len(chosen))
    for frame in chosen:
        try:
            prepared = prepare_frame(frame.data, long_edge=limits.long_edge, max_bytes=max_bytes)
        except FrameError as error:
            return _unreadable(frame, error.message)
        blank = None if frame.phase == "first" else is_blank(prepared)
        if blank is not None:
            return _unreadable(frame, blank)
        ready.append(prepared)
    pairs = list(zip(chosen, ready, strict=True))
    return Shown(
        frames=[
            LabelledFrame(frame.camera, frame.phase, Image(prepared.media_type, prepared.data))
            for frame, prepared in pairs
        ],
        receipt=[_in_receipt(frame, prepared) for frame, prepared in pairs],
        flags=_unchanged(pairs),
    )


def choose_frames(frames: Sequence[Evidence], *, max_cameras: int) -> list[Evidence]:
    """Return the frames to show: first ones, then last ones, each by camera name and capped.

    Parked frames, where there are any, take the place of the last ones.
    """
    final = "parked" if any(frame.phase == "parked" for frame in frames) else "last"
    chosen: list[Evidence] = []
    for phase in ("first", final):
        of_phase = sorted(
            (frame for frame in frames if frame.phase == phase), key=lambda frame: frame.camera
        )
        chosen += of_phase[:max_cameras]
    return chosen


def nothing_to_judge(bundle: Mapping[str, Any] | None) -> str | None:
    """Return why a bundle shows nothing that could be judged, else None.

    Judges are led to a verdict even by a report of a colon (arXiv 2507.08794), so a run in which
    nothing was done and nothing was said must not reach one.
    """
    if not bundle:
        return "the run has no bundle: its set-up crashed"
    if bundle.get("commands") or _has_words(bundle.get("agent_report")):
        return None
    return "the run has neither commands nor a report in words"


def _has_words(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_words, value.values()))
    if isinstance(value, list):
        return any(map(_has_words, value))
    return isinstance(value, str) and any(map(str.isalpha, clean(value)))


def _unreadable(frame: Evidence, why: str) -> Insufficient:
    return Insufficient(Decision.ungraded("evidence_unreadable"), f"{frame}: {why}")


def _in_receipt(frame: Evidence, prepared: PreparedFrame) -> dict[str, Any]:
    return {
        "camera": frame.camera,
        "phase": frame.phase,
        "sha256_received": frame.sha256,
        "sha256_sent": prepared.sha256_sent,
        "media_type": prepared.media_type,
        "width": prepared.width,
        "height": prepared.height,
        "flags": list(prepared.flags),
    }


def _unchanged(pairs: Sequence[tuple[Evidence, PreparedFrame]]) -> list[str]:
    firsts = {frame.camera: prepared for frame, prepared in pairs if frame.phase == "first"}
    return [
        f"first_and_last_identical:{frame.camera}"
        for frame, prepared in pairs
        if frame.phase != "first"
        and frame.camera in firsts
        and same_picture(firsts[frame.camera], prepared)
    ]
