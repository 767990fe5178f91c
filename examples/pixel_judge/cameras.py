"""The two fixed cameras over the table: what was measured of them, and the geometry it allows.

Table coordinates are in metres from the point straight under the overhead camera: x to the right
in its image, y downwards in it (that is, towards the front camera), z up from the table.

All constants were fitted once, by least squares, to frames in which the true positions of cubes,
can, square and circle were known. Between trials both cameras shift by up to some 10 pixels, which
is why nothing here is used as an absolute position: only differences within one trial count, and
in those the fits are good to 0.2 px (overhead) and 1.3 px (front).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

Points = npt.NDArray[np.float64]

FRAME_SIZE: Final = (640, 480)
_CENTRE_PX: Final = np.array([319.5, 239.5])

# A square and cubes of known size measured 724 px per metre at the table, 770 at 5 cm above it and
# 825 at 10 cm: so 0.80 m of height, and a focal length of 579 px (45 degrees from top to bottom).
# The front camera has the same lens.
_FOCAL_PX: Final = 579.4
_OVERHEAD_Z_M: Final = 0.80

# The front camera, from the rows in which the upper edges of the objects appear, at tops of 5, 5.6
# and 10 cm: 0.80 m before the point under the overhead camera, 0.58 m up, looking 32.8 degrees
# down and 2.9 degrees to the side.
_FRONT_Y_M: Final = 0.796
_FRONT_Z_M: Final = 0.580
_FRONT_PITCH: Final = math.radians(32.78)
_FRONT_YAW: Final = math.radians(-2.85)


def to_table(pixels: npt.ArrayLike, *, z: float) -> Points:
    """Return where overhead `pixels` (..., 2) lie, in metres (..., 2), if they are `z` m high.

    A point above the table appears further from the image centre than its foot does; this is the
    pinhole projection solved for the point, given its height.
    """
    from_centre: Points = np.asarray(pixels, dtype=float) - _CENTRE_PX
    return from_centre * ((_OVERHEAD_Z_M - z) / _FOCAL_PX)


def rise_from_growth(ratio: float, *, z: float) -> float:
    """Return by how much a flat face rose (m) from height `z`, if its side grew by `ratio`."""
    return (_OVERHEAD_Z_M - z) * (1 - 1 / ratio)


def front_row(x: float, y: float, z: float) -> float:
    """Return the row (px) in which the front camera sees the point (x, y, z), all in metres."""
    along = (_FRONT_Y_M - y) + x * math.tan(_FRONT_YAW)
    below = _FRONT_Z_M - z
    depth = along * math.cos(_FRONT_PITCH) + below * math.sin(_FRONT_PITCH)
    drop = below * math.cos(_FRONT_PITCH) - along * math.sin(_FRONT_PITCH)
    return float(_CENTRE_PX[1] + _FOCAL_PX * drop / depth)
