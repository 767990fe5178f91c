"""Whatever bytes come in: a picture or a FrameError, nothing else."""

from __future__ import annotations

import io
from contextlib import suppress
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from grader_service.errors import FrameError
from grader_service.judging.frames import inspect_frame, is_blank, prepare_frame

NASTY = Path(__file__).parents[1] / "data" / "nasty"


def compressed_tiff(**options: object) -> bytes:
    buffer = io.BytesIO()
    Image.open(NASTY / "gray8.png").save(buffer, "TIFF", **options)
    return buffer.getvalue()


GOOD = [
    (NASTY / name).read_bytes()
    for name in (
        "rgba.png",
        "palette_transparency.png",
        "gray16.png",
        "exif_orientation6.jpg",
        "progressive.jpg",
        "cmyk.jpg",
        "still.webp",
        "still.gif",
        "still.avif",
        "bmp.bmp",
        "single.tiff",
        "chw_uint8.npy",
        "float01.npy",
    )
] + [compressed_tiff(compression="tiff_lzw"), compressed_tiff(compression="jpeg")]
MAGIC = [data[:length] for data in GOOD for length in (4, 12, 26)]

hostile = settings(max_examples=150)


def check(data: bytes) -> None:
    """Fail for any outcome but a picture within the limits or a FrameError."""
    info = frame = None
    with suppress(FrameError):
        info = inspect_frame(data)
    with suppress(FrameError):
        frame = prepare_frame(data)
    if frame is None:
        return
    assert info is not None, "prepared, although submission refuses it"
    assert frame.sha256_received == info.sha256
    sent = Image.open(io.BytesIO(frame.data))
    assert (sent.format, sent.mode, sent.size) == ("JPEG", "RGB", (frame.width, frame.height))
    assert max(sent.size) <= 768
    assert np.asarray(sent).any() or is_blank(frame)


@hostile
@given(st.binary(max_size=300))
def test_random_bytes_do_no_harm(data: bytes) -> None:
    check(data)


@hostile
@given(st.sampled_from(MAGIC), st.binary(max_size=300))
def test_random_bytes_behind_a_true_beginning_do_no_harm(magic: bytes, data: bytes) -> None:
    check(magic + data)


@hostile
@given(st.sampled_from(GOOD), st.floats(0, 1))
def test_a_picture_cut_short_anywhere_does_no_harm(data: bytes, part: float) -> None:
    check(data[: int(len(data) * part)])


@hostile
@given(
    st.sampled_from(GOOD),
    # Most flips go to the header, where they change more than a few pixels.
    st.lists(
        st.tuples(st.integers(0, 400) | st.integers(0, 40_000), st.integers(1, 255)), min_size=1
    ),
)
def test_flipped_bits_do_no_harm(data: bytes, flips: list[tuple[int, int]]) -> None:
    damaged = bytearray(data)
    for at, bits in flips:
        damaged[at % len(damaged)] ^= bits
    check(bytes(damaged))


@hostile
@given(st.sampled_from(GOOD), st.sampled_from(GOOD), st.floats(0, 1))
def test_the_head_of_one_picture_on_the_tail_of_another_does_no_harm(
    head: bytes, tail: bytes, part: float
) -> None:
    cut = int(400 * part)
    check(head[:cut] + tail[cut:])
