"""Evidence: what fits into one request, and what shows nothing."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from grader_service.judging.evidence import MAX_TOTAL_BYTES, Evidence, Shown, nothing_to_judge, show
from grader_service.judging.rubric import FrameLimits
from grader_service.records.canonical import digest


def noise(side: int) -> bytes:
    buffer = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (side, side, 3), np.uint8)
    Image.fromarray(pixels).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def test_many_grainy_frames_together_stay_within_what_a_request_may_hold() -> None:
    data = noise(1200)
    frames = [
        Evidence(f"c{camera}", phase, digest(data), data)
        for phase in ("first", "last")
        for camera in range(12)
    ]
    one, all_ = (
        show(some, FrameLimits(max_cameras=12, long_edge=1200)) for some in (frames[-1:], frames)
    )
    assert isinstance(one, Shown)
    assert isinstance(all_, Shown)
    [alone] = [len(frame.image.data) for frame in one.frames]
    assert alone * len(frames) > MAX_TOTAL_BYTES, "these frames would fit anyway"
    sizes = [len(frame.image.data) for frame in all_.frames]
    assert len(sizes) == len(frames)
    assert sum(sizes) <= MAX_TOTAL_BYTES
    assert all(frame["flags"] == ["quality_lowered"] for frame in all_.receipt)


@pytest.mark.parametrize(
    "bundle",
    [
        None,
        {},
        {"commands": [], "agent_report": None},
        {"commands": [], "agent_report": {"diagnosis": None, "actions_summary": None}},
        {"commands": [], "agent_report": {"diagnosis": "", "actions_summary": [" ", 7, {}]}},
        {"commands": [], "agent_report": {"diagnosis": " : ", "actions_summary": "\u200b\u3164…"}},
    ],
)
def test_a_run_in_which_nothing_was_done_and_no_word_said_has_nothing_to_judge(
    bundle: dict[str, object] | None,
) -> None:
    assert nothing_to_judge(bundle)


@pytest.mark.parametrize(
    "bundle",
    [
        {"commands": [{"control": "apu_gen"}], "agent_report": None},
        {"commands": [], "agent_report": {"diagnosis": "故障", "actions_summary": None}},
        {"commands": [], "agent_report": {"diagnosis": None, "actions_summary": [["reset it"]]}},
    ],
)
def test_a_command_or_a_word_is_something_to_judge(bundle: dict[str, object]) -> None:
    assert nothing_to_judge(bundle) is None
