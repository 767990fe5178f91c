"""What a judge is sent of a frame."""

from __future__ import annotations

import hashlib
import io
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import ExifTags, Image, JpegImagePlugin

from grader_service.errors import FrameError
from grader_service.judging.frames import PreparedFrame, is_blank, prepare_frame, same_picture

if TYPE_CHECKING:
    from pathlib import Path

FLIPS = Image.Transpose
# How an upright picture is stored under each EXIF orientation (CIPA DC-008, tag 0x0112).
STORED = {
    1: (),
    2: (FLIPS.FLIP_LEFT_RIGHT,),
    3: (FLIPS.ROTATE_180,),
    4: (FLIPS.FLIP_TOP_BOTTOM,),
    5: (FLIPS.FLIP_LEFT_RIGHT, FLIPS.ROTATE_90),
    6: (FLIPS.ROTATE_90,),
    7: (FLIPS.FLIP_LEFT_RIGHT, FLIPS.ROTATE_270),
    8: (FLIPS.ROTATE_270,),
}


def file_of(image: Image.Image, image_format: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, image_format, **options)
    return buffer.getvalue()


def scene(width: int = 160, height: int = 120) -> Image.Image:
    """Return a smooth picture whose four corners differ, so that no turn of it looks the same."""
    corners = Image.new("RGB", (2, 2))
    for at, colour in {(0, 0): "red", (1, 0): "lime", (0, 1): "blue", (1, 1): "white"}.items():
        corners.putpixel(at, Image.new("RGB", (1, 1), colour).getpixel((0, 0)) or 0)
    return corners.resize((width, height), Image.Resampling.BILINEAR)


def pixels(image: Image.Image | PreparedFrame) -> npt.NDArray[np.float64]:
    if isinstance(image, PreparedFrame):
        image = Image.open(io.BytesIO(image.data))
    return np.asarray(image, dtype=float)


def grainy(width: int, height: int, sigma: float = 8, level: float = 128) -> Image.Image:
    noise = np.random.default_rng(0).normal(level, sigma, (height, width, 3))
    return Image.fromarray(np.clip(noise, 0, 255).astype(np.uint8))


def test_a_frame_becomes_a_jpeg_with_the_digests_of_what_came_and_what_is_sent() -> None:
    data = file_of(scene())
    frame = prepare_frame(data)
    assert frame.media_type == "image/jpeg"
    assert frame.sha256_received == hashlib.sha256(data).hexdigest()
    assert frame.sha256_sent == hashlib.sha256(frame.data).hexdigest()
    assert frame.flags == ()
    np.testing.assert_allclose(pixels(frame), pixels(scene()), atol=8)


@pytest.mark.parametrize("image_format", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
@pytest.mark.parametrize("orientation", STORED)
def test_a_frame_is_turned_upright_whatever_its_exif_orientation(
    image_format: str, orientation: int
) -> None:
    upright = stored = scene()
    for flip in STORED[orientation]:
        stored = stored.transpose(flip)
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    frame = prepare_frame(file_of(stored, image_format, exif=exif, quality=95))
    assert (frame.width, frame.height) == upright.size
    assert np.abs(pixels(frame) - pixels(upright)).mean() < 4


@pytest.mark.parametrize("mode", ["I;16", "RGBA"])
def test_a_converted_frame_is_turned_upright_too(mode: str) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    frame = prepare_frame(file_of(Image.new(mode, (64, 48)), exif=exif))
    assert (frame.width, frame.height) == (48, 64)
    assert "turned" in frame.flags


@pytest.mark.parametrize("image_format", ["JPEG", "PNG", "WEBP"])
def test_unreadable_exif_does_not_cost_the_frame(image_format: str) -> None:
    frame = prepare_frame(file_of(scene(), image_format, exif=b"Exif\0\0garbage"))
    assert (frame.width, frame.height) == (160, 120)


@pytest.mark.parametrize(
    ("size", "long_edge", "sent"),
    [
        ((640, 480), 768, (640, 480)),
        ((768, 432), 768, (768, 432)),
        ((1280, 720), 768, (768, 432)),
        ((720, 1280), 768, (432, 768)),
        ((1280, 720), 1280, (1280, 720)),
        ((3000, 150), 768, (768, 38)),
        ((32, 32), 768, (32, 32)),
    ],
)
@pytest.mark.parametrize("image_format", ["JPEG", "PNG"])
def test_only_a_larger_frame_is_scaled_to_the_long_edge(
    size: tuple[int, int], long_edge: int, sent: tuple[int, int], image_format: str
) -> None:
    frame = prepare_frame(file_of(scene(*size), image_format), long_edge=long_edge)
    assert (frame.width, frame.height) == sent == Image.open(io.BytesIO(frame.data)).size
    assert ("downscaled" in frame.flags) == (size != sent)


def test_a_large_jpeg_decoded_at_a_fraction_looks_like_one_decoded_in_full() -> None:
    large = file_of(scene(4000, 3000), "JPEG", quality=95)
    full = Image.open(io.BytesIO(large)).resize((768, 576), Image.Resampling.LANCZOS)
    assert np.abs(pixels(prepare_frame(large)) - pixels(full)).mean() < 1.5


def test_a_frame_is_coded_at_quality_85_with_half_the_colour_resolution() -> None:
    sent = Image.open(io.BytesIO(prepare_frame(file_of(scene())).data))
    assert isinstance(sent, JpegImagePlugin.JpegImageFile)
    like = Image.open(io.BytesIO(file_of(scene(), "JPEG", quality=85)))
    assert isinstance(like, JpegImagePlugin.JpegImageFile)
    assert sent.quantization == like.quantization
    assert JpegImagePlugin.get_sampling(sent) == 2  # 4:2:0


@pytest.mark.parametrize("image_format", ["JPEG", "PNG", "WEBP", "TIFF", "GIF", "AVIF"])
def test_nothing_but_the_picture_is_sent(image_format: str) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Make] = "SECRET maker"
    data = file_of(
        scene(), image_format, exif=exif, comment=b"SECRET", icc_profile=b"SECRET", xmp=b"SECRET"
    )
    sent = prepare_frame(data + b"<script>SECRET</script>").data
    assert b"SECRET" not in sent
    image = Image.open(io.BytesIO(sent))
    assert isinstance(image, JpegImagePlugin.JpegImageFile)
    assert [name for name, _ in image.applist] == ["APP0"]
    assert sent.endswith(b"\xff\xd9")


@pytest.mark.parametrize("image_format", ["JPEG", "PNG", "WEBP", "AVIF", "TIFF"])
def test_the_same_bytes_give_the_same_frame_every_time(image_format: str) -> None:
    data = file_of(grainy(1000, 700), image_format)
    assert prepare_frame(data) == prepare_frame(data)


def test_a_frame_over_the_byte_limit_is_coded_at_a_lower_quality() -> None:
    data = file_of(grainy(320, 240, sigma=60))
    usual = prepare_frame(data)
    lower = prepare_frame(data, max_bytes=len(usual.data) - 1)
    assert len(lower.data) < len(usual.data)
    assert (usual.flags, lower.flags) == ((), ("quality_lowered",))
    with pytest.raises(FrameError, match="1000 bytes"):
        prepare_frame(data, max_bytes=1000)


def with_alpha(colour: tuple[int, int, int], alpha: int) -> Image.Image:
    return Image.new("RGBA", (64, 48), (*colour, alpha))


def keyed(mode: str) -> dict[str, Any]:
    """Return a frame all of one colour that a PNG key makes transparent."""
    image = Image.new(mode, (64, 48), 0)
    return {"image": image, "transparency": (0, 0, 0) if mode == "RGB" else 0}


@pytest.mark.parametrize(
    ("data", "colour"),
    [
        (file_of(with_alpha((200, 0, 0), 0)), (255, 255, 255)),
        (file_of(with_alpha((200, 0, 0), 255)), (200, 0, 0)),
        (file_of(with_alpha((200, 0, 0), 51)), (244, 204, 204)),
        (file_of(with_alpha((200, 0, 0), 51), "WEBP", lossless=True), (244, 204, 204)),
        (file_of(with_alpha((200, 0, 0), 51), "TIFF"), (244, 204, 204)),
        (file_of(Image.new("LA", (64, 48), (100, 51))), (224, 224, 224)),
        (file_of(**keyed("RGB")), (255, 255, 255)),
        (file_of(**keyed("L")), (255, 255, 255)),
        (file_of(**keyed("P")), (255, 255, 255)),
        (file_of(**keyed("P"), image_format="GIF"), (255, 255, 255)),
    ],
)
def test_transparency_is_laid_on_white(data: bytes, colour: tuple[int, int, int]) -> None:
    frame = prepare_frame(data)
    assert frame.flags == ("alpha_on_white",)
    assert np.abs(pixels(frame) - colour).max() <= 2


def test_a_hidden_colour_does_not_bleed_into_a_frame_that_is_scaled_down() -> None:
    values = np.zeros((1000, 1000, 4), np.uint8)
    values[:] = (255, 0, 0, 0)
    values[:, ::2] = (0, 0, 255, 255)
    frame = prepare_frame(file_of(Image.fromarray(values)), long_edge=250)
    red, green, _ = pixels(frame).mean(axis=(0, 1))
    assert abs(red - green) < 3


@pytest.mark.parametrize(
    ("mode", "stored", "shown"),
    [("CMYK", (0, 255, 255, 0), (254, 0, 0)), ("YCbCr", (76, 85, 255), (254, 0, 0))],
)
def test_printing_and_video_colours_become_rgb(
    mode: str, stored: tuple[int, ...], shown: tuple[int, int, int]
) -> None:
    frame = prepare_frame(file_of(Image.new(mode, (64, 48), stored), "TIFF"))
    assert np.abs(pixels(frame) - shown).max() <= 3


@pytest.mark.parametrize("mode", ["I;16", "I;16B"])
@pytest.mark.parametrize("image_format", ["PNG", "TIFF"])
@pytest.mark.parametrize("off", [-128, 0, 128])
def test_16_bits_are_scaled_to_the_nearest_of_256_levels(
    mode: str, image_format: str, off: int
) -> None:
    levels = np.arange(256)[None, :].repeat(64, axis=0)
    values = np.clip(levels * 257 + off, 0, 65535).astype(">u2" if mode == "I;16B" else "<u2")
    deep = prepare_frame(file_of(Image.frombytes(mode, (256, 64), values.tobytes()), image_format))
    assert deep.flags == ("scaled_16_bit",)
    assert same_picture(deep, prepare_frame(file_of(Image.fromarray(levels.astype(np.uint8)))))


@pytest.mark.parametrize("level", [0, 3, 128, 255])
@pytest.mark.parametrize("sigma", [0, 1, 3])
def test_a_frame_without_a_scene_is_blank_whatever_its_brightness_and_noise(
    level: int, sigma: float
) -> None:
    reason = is_blank(prepare_frame(file_of(grainy(640, 480, sigma, level))))
    assert reason is not None
    assert ("black" in reason) == (level < 24)


def test_a_hot_pixel_does_not_make_a_scene() -> None:
    black = Image.new("RGB", (640, 480))
    black.putpixel((321, 123), (255, 255, 255))
    assert is_blank(prepare_frame(file_of(black)))


def test_no_sample_frame_is_blank_even_at_6_percent_of_its_light(sample_trials: Path) -> None:
    frames = sorted(sample_trials.glob("*/final_front.*"))
    assert frames
    for path in frames:
        dimmed = Image.open(path).convert("RGB").point(lambda level: round(level * 0.06))
        assert is_blank(prepare_frame(file_of(dimmed))) is None, path.parent.name


def test_one_small_object_on_a_flat_table_is_not_blank() -> None:
    table = Image.new("RGB", (640, 480), (120, 120, 120))
    table.paste((150, 120, 120), (300, 200, 316, 216))
    assert is_blank(prepare_frame(file_of(table))) is None


def test_colours_of_equal_brightness_are_not_blank() -> None:
    table = Image.new("RGB", (640, 480), (0, 130, 0))
    table.paste((255, 0, 0), (300, 200, 340, 240))
    assert is_blank(prepare_frame(file_of(table))) is None


def test_the_same_pixels_are_the_same_picture_in_any_lossless_container() -> None:
    image = grainy(320, 240)
    array = io.BytesIO()
    np.save(array, np.asarray(image))
    png = prepare_frame(file_of(image))
    for data in (array.getvalue(), file_of(image, "BMP"), file_of(image, "TIFF")):
        other = prepare_frame(data)
        assert same_picture(png, other)
        assert png.sha256_received != other.sha256_received


def test_an_object_that_moved_makes_another_picture() -> None:
    first, last = grainy(320, 240), grainy(320, 240)
    last.paste((255, 0, 0), (100, 100, 108, 108))
    assert not same_picture(prepare_frame(file_of(first)), prepare_frame(file_of(last)))
