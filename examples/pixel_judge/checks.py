"""The checks: each measures one thing in a scene and says yes, no or unclear, with the numbers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import cv2
import numpy as np

from examples.pixel_judge.cameras import Points, to_table
from examples.pixel_judge.scene import (
    OBJECT_HEIGHT_M,
    Scene,
    UnseenError,
    follow,
    seen_from_above,
)
from examples.pixel_judge.task import Task, Thing
from examples.pixel_judge.vision import COLOURS

if TYPE_CHECKING:
    from examples.pixel_judge.vision import Blob

Met = Literal["yes", "no", "unclear"]

# Closer to a limit than this, a measurement does not decide.
_DOUBT_M: Final = 0.002
# A limit passed by this much is as certain as this judge gets.
_CERTAIN_M: Final = 0.02

# What counts as done where the criterion states no length.
_STACK_TOLERANCE_M: Final = 0.02
_DRAWER_TOLERANCE_M: Final = 0.008
# Half a cube: nearer to one level than to the next.
_LEVEL_M: Final = 0.025
_MOVED_M: Final = 0.015

# The furniture of this table.
_BIN_RIM_Z_M: Final = 0.05
_BIN_WALL_M: Final = 0.008
_CABINET_Z_M: Final = 0.15
# The face of the shut drawer stands out this far from the upper front edge of the cabinet.
_DRAWER_FACE_M: Final = 0.0012

# Pixels of gripper around a target: under 60 beside an object that was let go, over 200 at one
# that was held or pushed.
_TOUCH_PX: Final = 110

_WHOLE: Final = re.compile(r"\b(?:complete|entire|whol|full)", re.IGNORECASE)
_LENGTH: Final = re.compile(
    r"\b(?:within|at most|less than|no more than) (\d+(?:\.\d+)?) ?(mm|cm)\b", re.IGNORECASE
)


class Finding(NamedTuple):
    """The answer to a check. `certainty` is 0.5 (as good as a guess) to 1."""

    met: Met
    evidence: str
    certainty: float = 0.5


def goal_reached(scene: Scene, task: Task, statement: str) -> Finding:
    """Check that the target is where the task wants it. Raises UnseenError."""
    return _GOAL_CHECKS[task.goal](scene, task, statement)


def _in_area(scene: Scene, task: Task, statement: str) -> Finding:
    """The target stands on the marked area: by its centre, or wholly where that is asked."""
    track = follow(scene, task.target)
    area = to_table(seen_from_above(scene.first_overhead, "first", task.place).outline, z=0.0)
    whole = task.place.noun == "circle" or _WHOLE.search(statement) is not None
    margin = min(
        _inside(area, spot) for spot in (track.footprint if whole else track.centre[np.newaxis])
    )
    part = "outermost point" if whole else "centre"
    evidence = (
        f"the {part} of the {task.target} is {_side(margin)} the {task.place}, and its bottom is"
        f" {_cm(track.rise)} above the table"
    )
    return _by_margin(min(margin, _LEVEL_M - abs(track.rise)), evidence)


def _in_bin(scene: Scene, task: Task, _statement: str) -> Finding:
    track = follow(scene, task.target)
    bin_seen = seen_from_above(scene.first_overhead, "first", task.place)
    rim = to_table(bin_seen.outline, z=_BIN_RIM_Z_M)
    margin = _inside(rim, track.centre) - _BIN_WALL_M
    evidence = (
        f"the centre of the {task.target} is {_side(margin)} the walls of the {task.place}, and its"
        f" bottom is {_cm(track.rise)} above the table, where the rim is at {_cm(_BIN_RIM_Z_M)}"
    )
    return _by_margin(min(margin, _LEVEL_M - track.rise), evidence)


def _stacked(scene: Scene, task: Task, statement: str) -> Finding:
    track = follow(scene, task.target)
    # A cube under another shows next to nothing from above: then it is where it was at the start.
    base = seen_from_above(scene.first_overhead, "first", task.place)
    now = scene.last_overhead.find(task.place.colour)
    if now is not None and now.face_px > 0.7 * base.face_px:
        base = now
    offset = float(np.linalg.norm(track.centre - _centre(base)))
    evidence = (
        f"the bottom of the {task.target} is {_cm(track.rise)} above the table and its centre"
        f" {_cm(offset)} beside that of the {task.place}, which is {_cm(OBJECT_HEIGHT_M)} tall"
    )
    on_top = _LEVEL_M - abs(track.rise - OBJECT_HEIGHT_M)
    return _by_margin(min(on_top, _stated(statement, _STACK_TOLERANCE_M) - offset), evidence)


def _closed(scene: Scene, task: Task, statement: str) -> Finding:
    """The drawer's opening: from the cabinet's upper front edge to the foot of the drawer's face.

    Both are edges of the red area: the cabinet's where it covers the open drawer in the first
    frame, the drawer's own in the last one.
    """
    first = seen_from_above(scene.first_overhead, "first", task.target)
    last = seen_from_above(scene.last_overhead, "last", task.target)
    breadth = np.ptp(last.outline[:, 1]) / np.ptp(first.outline[:, 1])
    if breadth < 0.8:
        raise UnseenError(
            f"only {breadth:.0%} of the breadth of the drawer shows in the LAST overhead frame"
        )
    cabinet = to_table((first.outline[:, 0].max(), 0), z=_CABINET_Z_M)[0]
    face = to_table((last.outline[:, 0].min(), 0), z=0.0)[0]
    opening = float(cabinet - face + _DRAWER_FACE_M)
    limit = _stated(statement, _DRAWER_TOLERANCE_M)
    evidence = f"the drawer is {_cm(opening)} open, and {_cm(limit)} are allowed"
    return _by_margin(limit - opening, evidence)


_GOAL_CHECKS: Final = {"area": _in_area, "bin": _in_bin, "stack": _stacked, "closed": _closed}


def released(scene: Scene, task: Task, _statement: str) -> Finding:
    """Check that no gripper touches the target. Raises UnseenError.

    A gap seen by one camera is proof; contact seen by one may be one thing in front of another, so
    it takes two. A camera from which the target is hidden says nothing.
    """
    seen = {
        camera: last.gripper_px_around(blob, since=first)
        for camera, first, last in (
            ("front", scene.first_front, scene.last_front),
            ("overhead", scene.first_overhead, scene.last_overhead),
        )
        if (blob := last.find(task.target.colour)) is not None
    }
    if not seen:
        raise UnseenError(f"no {task.target} is visible in the LAST frames")
    counts = " and ".join(f"{count} px in the {camera} view" for camera, count in seen.items())
    evidence = f"dark gripper within about 1 cm of the {task.target}: {counts}"
    if min(seen.values()) < _TOUCH_PX:
        return Finding("yes", evidence, 0.95)
    if len(seen) == 2:
        return Finding("no", evidence, 0.95)
    return Finding("unclear", f"{evidence}; one view can't tell touching from standing before it")


def upright(scene: Scene, task: Task, _statement: str) -> Finding:
    """Check that the target shows the same upper face as at the start. Raises UnseenError."""
    first = seen_from_above(scene.first_overhead, "first", task.target)
    last = follow(scene, task.target).last
    change = abs(last.face_extent - first.face_extent)
    evidence = (
        f"the top of the {task.target} fills {last.face_extent:.0%} of its rectangle,"
        f" {first.face_extent:.0%} at the start"
    )
    return Finding("yes" if change < 0.1 else "no", evidence, 0.9)


def others_undisturbed(scene: Scene, task: Task, _statement: str) -> Finding:
    """Check that every other coloured thing is where it was. Raises UnseenError."""
    moved = {}
    for colour in COLOURS:
        before = scene.first_overhead.find(colour)
        if before is None or colour in (task.target.colour, task.place.colour):
            continue
        after = seen_from_above(scene.last_overhead, "last", Thing(colour, "object"))
        moved[colour] = float(np.linalg.norm(_centre(after) - _centre(before)))
    evidence = ", ".join(f"the {c} object moved by {_cm(d)}" for c, d in moved.items())
    most = max(moved.values(), default=0.0)
    return _by_margin(_MOVED_M - most, evidence or "there is no other coloured object")


def _centre(blob: Blob) -> Points:
    return to_table(blob.face_centre, z=OBJECT_HEIGHT_M)


def _inside(outline: Points, spot: Points) -> float:
    """Return how far (m) a spot is inside a convex outline; negative outside."""
    x, y = map(float, spot)
    return float(cv2.pointPolygonTest(outline.astype(np.float32), (x, y), measureDist=True))


def _side(margin: float) -> str:
    return f"{_cm(abs(margin))} {'inside' if margin >= 0 else 'outside'}"


def _cm(metres: float) -> str:
    # Adding zero turns a negative zero into a plain one.
    return f"{round(100 * metres, 1) + 0.0:.1f} cm"


def _stated(statement: str, default: float) -> float:
    """Return the tolerance (m) that a criterion states, as "within 2 cm" or "at most 8 mm"."""
    match = _LENGTH.search(statement)
    if match is None:
        return default
    return float(match[1]) / (1000 if match[2].lower() == "mm" else 100)


def _by_margin(margin: float, evidence: str) -> Finding:
    if abs(margin) < _DOUBT_M:
        return Finding("unclear", f"{evidence}: too close to the limit")
    certainty = 0.5 + 0.5 * min(1.0, abs(margin) / _CERTAIN_M)
    return Finding("yes" if margin > 0 else "no", evidence, certainty)
