"""Frames: what is accepted, and how a frame is prepared for a judge."""

from __future__ import annotations

from grader_service.judging.frame_check import FrameInfo, inspect_frame
from grader_service.judging.frame_prepare import (
    PreparedFrame,
    is_blank,
    prepare_frame,
    same_picture,
)

__all__ = [
    "FrameInfo",
    "PreparedFrame",
    "inspect_frame",
    "is_blank",
    "prepare_frame",
    "same_picture",
]
