"""Frames as a judge gets them: one small upright RGB JPEG each, without metadata."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from PIL import ExifTags, Image

from grader_service.errors import FrameError
from grader_service.judging import npy
from grader_service.judging.frame_check import (
    DECODER_ERRORS,
    NPY_MEDIA_TYPE,
    decoding,
    inspect_frame,
    open_picture,
)
from grader_service.records.canonical import digest

Flag = Literal["alpha_on_white", "downscaled", "quality_lowered", "scaled_16_bit", "turned"]

LONG_EDGE = 768
# 5 MB of base64, the smallest limit per image among the providers.
MAX_BYTES = 3_750_000
# The first is what every frame gets. With colour at half resolution it takes a tenth of the bytes
# of a PNG, and a judge that goes by hues says the same (benchmarks/judge_cost.py). The others are
# for large grainy frames over the byte limit.
_QUALITIES = (85, 70, 50)

# Levels (0-255) by which some 8x8 block must differ from another. Averaging over blocks removes
# sensor noise and hot pixels: a capped lens with a noise of 3 levels stays below 6, while a
# well-lit table scene dimmed to 4 % of its light reaches it. A threshold on brightness could
# not tell those two apart.
_MIN_CONTRAST = 6
_BLACK = 24  # levels; above the noise of a capped lens

_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@dataclass(frozen=True, slots=True)
class PreparedFrame:
    """A frame as it is sent, and what was done to get there.

    `flags` name what changed the picture beyond the JPEG coding itself (not the turning of a TIFF,
    which its decoder does). `sha256_sent` is the same for the same input under the same version of
    Pillow, not across versions.
    """

    media_type: str
    data: bytes = field(repr=False)
    width: int
    height: int
    sha256_received: str
    sha256_sent: str
    flags: tuple[Flag, ...]


def prepare_frame(
    data: bytes, *, long_edge: int = LONG_EDGE, max_bytes: int = MAX_BYTES
) -> PreparedFrame:
    """Decode a frame in full and return it as an RGB JPEG of at most `long_edge` px per side.

    EXIF orientation is applied, transparency laid on white, 16 bits scaled to 8; smaller
    pictures keep their size. Raises FrameError for what `inspect_frame` refuses, for what does
    not decode to its last pixel, and for a picture that no quality brings under `max_bytes`.
    """
    info = inspect_frame(data)
    with decoding():
        image = decode(data, info.media_type, long_edge)
        picture, flags = normalise(image, long_edge)
        sent, quality = encode(picture, max_bytes)
    if max(info.width, info.height) > long_edge:
        flags.append("downscaled")
    if quality != _QUALITIES[0]:
        flags.append("quality_lowered")
    return PreparedFrame(
        media_type="image/jpeg",
        data=sent,
        width=picture.width,
        height=picture.height,
        sha256_received=info.sha256,
        sha256_sent=digest(sent),
        flags=tuple(flags),
    )


def is_blank(frame: PreparedFrame) -> str | None:
    """Return why a prepared frame shows nothing (black, or one flat colour), else None.

    Measures contrast, not brightness, so a dark scene passes as long as something in it differs
    from the rest.
    """
    image = Image.open(io.BytesIO(frame.data), formats=("JPEG",))
    # At 1/8 scale the decoder returns the mean of each 8x8 block and skips the rest of its work.
    image.draft("RGB", (1, 1))
    low, high = np.asarray(image).min(axis=(0, 1)), np.asarray(image).max(axis=(0, 1))
    contrast = int((high - low).max())
    if contrast >= _MIN_CONTRAST:
        return None
    colour = "black" if high.max() < _BLACK else "one flat colour"
    return f"the frame is {colour}: no two parts of it differ by {_MIN_CONTRAST} of 255 levels"


def same_picture(a: PreparedFrame, b: PreparedFrame) -> bool:
    """Tell whether two frames show exactly the same pixels, as a stuck camera gives them.

    Compares what is sent, so the same pixels in another container (PNG, .npy) count as the same.
    """
    return a.sha256_sent == b.sha256_sent


def decode(data: bytes, media_type: str, long_edge: int) -> Image.Image:
    """Return the picture decoded in full, as large as it is or, for a JPEG, as large as needed."""
    if media_type == NPY_MEDIA_TYPE:
        return Image.fromarray(npy.read_pixels(data))
    image = open_picture(data)
    # Lets a JPEG decode at 1/2, 1/4 or 1/8, never below twice the size that is wanted.
    image.draft(None, (2 * long_edge, 2 * long_edge))
    image.load()
    return image


def normalise(image: Image.Image, long_edge: int) -> tuple[Image.Image, list[Flag]]:
    """Return a decoded picture as upright RGB of at most `long_edge` px per side."""
    flags: list[Flag] = []
    if image.mode.startswith("I;16"):
        flags.append("scaled_16_bit")
    turn = _turn(image)
    # Scaled down first: what follows is then done on few pixels. Resizing weighs colours with
    # their alpha, so nothing of what is hidden bleeds into its surroundings.
    picture = _eight_bit(image)
    picture.thumbnail((long_edge, long_edge), Image.Resampling.LANCZOS)
    if turn is not None:
        picture = picture.transpose(turn)
        flags.append("turned")
    if picture.mode == "RGBA":
        white = Image.new("RGBA", picture.size, "white")
        picture = Image.alpha_composite(white, picture)
        flags.append("alpha_on_white")
    # Converting RGB to RGB would copy it.
    return picture if picture.mode == "RGB" else picture.convert("RGB"), flags


def encode(picture: Image.Image, max_bytes: int) -> tuple[bytes, int]:
    """Return the picture as JPEG of at most `max_bytes`, and the quality that took."""
    picture.info = {}  # a comment in it would be written too
    for quality in _QUALITIES:
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=quality, subsampling="4:2:0", optimize=True)
        if buffer.tell() <= max_bytes:
            return buffer.getvalue(), quality
    raise FrameError(
        f"the frame takes more than {max_bytes} bytes even at JPEG quality {_QUALITIES[-1]}",
        fix="lower the long edge in the rubric",
    )


def _eight_bit(image: Image.Image) -> Image.Image:
    """Return the picture in a mode that can be resized: L, RGB or RGBA."""
    if image.mode.startswith("I;16"):
        # Pillow's own conversion clips everything over 255 to white.
        values = np.asarray(image).astype(np.uint32)
        values += 128
        values //= 257
        return Image.fromarray(values.astype(np.uint8))
    if image.has_transparency_data:
        return image.convert("RGBA")
    return image if image.mode in ("L", "RGB") else image.convert("RGB")


def _turn(image: Image.Image) -> Image.Transpose | None:
    """Return how a decoded picture is turned upright, by its EXIF orientation.

    Unreadable EXIF is no orientation, as in every viewer. A TIFF was turned while it was decoded
    and no longer carries one.
    """
    try:
        return _TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    except DECODER_ERRORS:
        return None
