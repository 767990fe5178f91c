"""The four frames of a trial, and where the target went between the first and the last ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from examples.pixel_judge.cameras import Points, front_row, rise_from_growth, to_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from examples.pixel_judge.task import Thing
    from examples.pixel_judge.vision import Blob, View

Phase = Literal["first", "last"]

# The cubes and cans on this table are 5 cm tall, and stand on it when a trial begins.
OBJECT_HEIGHT_M: Final = 0.05

_HIDDEN_BELOW: Final = 0.7


class UnseenError(Exception):
    """The frames do not show what a check needs. The text says what, as evidence."""


@dataclass(frozen=True, eq=False)
class Scene:
    """The same table before and after, from both cameras."""

    first_front: View
    first_overhead: View
    last_front: View
    last_overhead: View

    @classmethod
    def of(cls, views: Mapping[tuple[Phase, str], View]) -> Scene:
        """Raises UnseenError if one of the four frames is missing or blank."""

        def view(phase: Phase, camera: str) -> View:
            found = views.get((phase, camera))
            if found is None:
                raise UnseenError(f"there is no {phase.upper()} frame of the {camera} camera")
            if found.blank:
                raise UnseenError(f"the {phase.upper()} frame of the {camera} camera is blank")
            return found

        return cls(
            first_front=view("first", "front"),
            first_overhead=view("first", "overhead"),
            last_front=view("last", "front"),
            last_overhead=view("last", "overhead"),
        )


@dataclass(frozen=True, eq=False)
class Track:
    """The target as seen from above at the end, and by how much (m) it rose since the start."""

    last: Blob
    rise: float

    @property
    def centre(self) -> Points:
        return to_table(self.last.face_centre, z=OBJECT_HEIGHT_M + self.rise)

    @property
    def footprint(self) -> Points:
        return to_table(self.last.face, z=OBJECT_HEIGHT_M + self.rise)


def seen_from_above(view: View, phase: Phase, thing: Thing) -> Blob:
    """Raises UnseenError if nothing of that colour is in the overhead view."""
    blob = view.find(thing.colour)
    if blob is None:
        raise UnseenError(f"no {thing} is visible in the {phase.upper()} overhead frame")
    return blob


def follow(scene: Scene, thing: Thing) -> Track:
    """Measure where `thing` ended. Raises UnseenError if it is hidden."""
    first = seen_from_above(scene.first_overhead, "first", thing)
    last = seen_from_above(scene.last_overhead, "last", thing)
    growth = last.face_px / first.face_px
    if growth < _HIDDEN_BELOW:
        raise UnseenError(
            f"only {growth:.0%} of the top of the {thing} is visible in the LAST overhead frame"
        )
    rise = _rise_in_front(scene, thing, first, last)
    if rise is None:
        # The growth of the upper face tells it too, but a percent of its area is 4 mm of height.
        rise = rise_from_growth(growth**0.5, z=OBJECT_HEIGHT_M)
    return Track(last, rise)


def _rise_in_front(scene: Scene, thing: Thing, first: Blob, last: Blob) -> float | None:
    """Return the rise (m) that explains the row in which the front camera sees the target's top.

    The overhead camera gives a line on which the target's top lies; this is the height at which
    that line meets what the front camera sees. The first frames cancel how the cameras are placed
    in this trial. None if the front camera doesn't see the target.
    """
    before = scene.first_front.find(thing.colour)
    after = scene.last_front.find(thing.colour)
    if before is None or after is None:
        return None
    level = OBJECT_HEIGHT_M
    offset = before.top_row - _row_of(first, z=level)
    standing, one_up = (_row_of(last, z=z) + offset for z in (level, 2 * level))
    return level * (after.top_row - standing) / (one_up - standing)


def _row_of(blob: Blob, *, z: float) -> float:
    x, y = to_table(blob.face_centre, z=z)
    return front_row(x, y, z)
