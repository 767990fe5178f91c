"""Finding things in one camera image: coloured objects, their upper face, the dark gripper."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from examples.pixel_judge.cameras import FRAME_SIZE
from grader_service.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

Image = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Outline = npt.NDArray[np.float64]


class Hue(NamedTuple):
    """Hues from `low` over `width` steps (OpenCV's circle has 180), and the least saturation."""

    low: int
    width: int
    saturation: int = 110


# Wood of every shade has the hue of orange, but at most half its saturation.
COLOURS: Final[Mapping[str, Hue]] = {
    "red": Hue(174, 11),
    "orange": Hue(8, 12, saturation=180),
    "yellow": Hue(22, 11),
    "green": Hue(50, 30),
    "blue": Hue(105, 17),
    "purple": Hue(134, 16),
}

_DARKEST_COLOUR: Final = 25
# The upper face is the lit one: the sides have at most 0.7 of its brightness.
_FACE_BRIGHTNESS: Final = 0.75
# A cube shows some 1,500 px; crumbs of colour under arms and behind boxes stayed under 140.
_SMALLEST_PX: Final = 300

# Gripper fingers are grey and have brightness 13 to 30. Shadows are brighter (over 50 on pale
# wood) or coloured (on brown wood), and what did not move since the first frame is no gripper.
_GRIPPER_BRIGHTNESS: Final = 40
_GRIPPER_CHROMA: Final = 12
_MOVED_BRIGHTNESS: Final = 25
_TOUCH_RADIUS_PX: Final = 7

_BLANK_DEVIATION: Final = 10.0


@dataclass(frozen=True, eq=False)
class Blob:
    """The largest connected area of one colour.

    `mask` covers all of it, `outline` (n, 2) is its convex hull in pixels, `top_row` its first row.
    `face` (n, 2) is the hull of its brightest part, seen from above its upper face, `face_px` the
    area of that part and `face_centre` (2,) its centre of mass.
    """

    mask: Mask
    outline: Outline
    top_row: int
    face: Outline
    face_px: int
    face_centre: Outline

    @property
    def face_extent(self) -> float:
        """Return how much of its tightest rectangle the face fills: a square 1, a disc 0.79."""
        shape = self.face.astype(np.float32)
        width, height = cv2.minAreaRect(shape)[1]
        return cv2.contourArea(shape) / max(width * height, 1.0)


@dataclass(frozen=True, eq=False)
class View:
    """One camera image, BGR, at the size that the cameras were measured at."""

    pixels: Image
    _found: dict[str, Blob | None] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def decode(cls, data: bytes) -> View:
        """Raises UsageError if `data` is not an image file that OpenCV can read."""
        try:
            pixels = cv2.imdecode(np.frombuffer(data, dtype=np.uint8), cv2.IMREAD_COLOR)
        except cv2.error:
            pixels = None
        if pixels is None:
            raise UsageError("an image_url holds no image", fix="send a JPEG or PNG as a data URL")
        if (pixels.shape[1], pixels.shape[0]) != FRAME_SIZE:
            pixels = cv2.resize(pixels, FRAME_SIZE, interpolation=cv2.INTER_AREA)
        return cls(pixels.astype(np.uint8, copy=False))

    @cached_property
    def hsv(self) -> Image:
        return cv2.cvtColor(self.pixels, cv2.COLOR_BGR2HSV).astype(np.uint8, copy=False)

    @cached_property
    def blank(self) -> bool:
        return float(self.pixels[::8, ::8].std()) < _BLANK_DEVIATION

    def find(self, colour: str) -> Blob | None:
        """Return the largest thing of `colour`, or None if there is none of a fair size."""
        if colour not in self._found:
            self._found[colour] = self._find(COLOURS[colour])
        return self._found[colour]

    def _find(self, hue: Hue) -> Blob | None:
        area = _largest(self._of(hue))
        spots = _pixels(area)
        if len(spots) < _SMALLEST_PX:
            return None
        brightness = self.hsv[..., 2]
        lit = _FACE_BRIGHTNESS * np.percentile(brightness[area], 90)
        face = _pixels(_largest(area & (brightness >= lit)))
        return Blob(
            mask=area,
            outline=_hull(spots),
            top_row=int(spots[:, 1].min()),
            face=_hull(face),
            face_px=len(face),
            face_centre=face.mean(axis=0),
        )

    def _of(self, hue: Hue) -> Mask:
        dimmest = (hue.saturation, _DARKEST_COLOUR)
        last = hue.low + hue.width
        mask = cv2.inRange(self.hsv, (hue.low, *dimmest), (last, 255, 255))
        if last >= 180:
            mask = cv2.bitwise_or(
                mask, cv2.inRange(self.hsv, (0, *dimmest), (last - 180, 255, 255))
            )
        return cv2.morphologyEx(mask, cv2.MORPH_OPEN, np.ones((3, 3))) > 0

    def gripper_px_around(self, blob: Blob, *, since: View) -> int:
        """Count the pixels close to `blob` that show a gripper which was not there in `since`."""
        size = 2 * _TOUCH_RADIUS_PX + 1
        disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (size, size))
        near = (cv2.dilate(blob.mask.astype(np.uint8), disc) > 0) & ~blob.mask
        now, before = self.pixels[near].astype(int), since.pixels[near].astype(int)
        brightness = now.max(axis=1)
        grey = brightness - now.min(axis=1) <= _GRIPPER_CHROMA
        moved = abs(now.mean(axis=1) - before.mean(axis=1)) > _MOVED_BRIGHTNESS
        return int(np.count_nonzero((brightness <= _GRIPPER_BRIGHTNESS) & grey & moved))


def _largest(mask: Mask) -> Mask:
    """Return the part of `mask` within its largest outer contour; empty if there is none."""
    flat = mask.astype(np.uint8)
    contours, _ = cv2.findContours(flat, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    within = np.zeros_like(flat)
    if contours:
        cv2.drawContours(within, [max(contours, key=cv2.contourArea)], -1, 1, cv2.FILLED)
    return mask & (within > 0)


def _pixels(mask: Mask) -> npt.NDArray[np.int32]:
    """Return the (x, y) of the pixels of a mask, (n, 2)."""
    found = cv2.findNonZero(mask.astype(np.uint8))
    return np.empty((0, 2), np.int32) if found is None else found.reshape(-1, 2).astype(np.int32)


def _hull(spots: npt.NDArray[np.int32]) -> Outline:
    return cv2.convexHull(spots).reshape(-1, 2).astype(float)
