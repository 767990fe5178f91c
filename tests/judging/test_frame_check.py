"""What is taken as a frame at submission, told without decoding it."""

from __future__ import annotations

import hashlib
import io
import struct
import warnings
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from grader_service.errors import FrameError
from grader_service.judging.frames import FrameInfo, inspect_frame, prepare_frame

if TYPE_CHECKING:
    from pathlib import Path


def file_of(image: Image.Image, image_format: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, image_format, **options)
    return buffer.getvalue()


def png_header(width: int, height: int) -> bytes:
    """Return a PNG that promises a grey picture and goes on with bytes that are none."""
    body = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    checksum = struct.pack(">I", zlib.crc32(body))
    no_pixels = struct.pack(">I", 4) + b"IDAT" + b"junk" + b"\0\0\0\0"
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + body + checksum + no_pixels


def tiff_of(**tags: tuple[int, int]) -> bytes:
    """Return a grey 64x64 TIFF; a tag's number is in its name, its value is (count, value)."""
    numbers = {256: (1, 64), 257: (1, 64), 258: (1, 8), 259: (1, 8), 262: (1, 1), 277: (1, 1)}
    numbers |= {int(name[1:]): value for name, value in tags.items()}
    entries = b"".join(struct.pack("<HHII", tag, 4, *numbers[tag]) for tag in sorted(numbers))
    return b"II*\0" + struct.pack("<IH", 8, len(numbers)) + entries + b"\0\0\0\0"


def refusal(data: bytes) -> FrameError:
    with pytest.raises(FrameError) as caught:
        inspect_frame(data)
    assert caught.value.fix
    return caught.value


@pytest.mark.parametrize(
    ("image_format", "media_type"),
    [
        ("PNG", "image/png"),
        ("JPEG", "image/jpeg"),
        ("WEBP", "image/webp"),
        ("GIF", "image/gif"),
        ("BMP", "image/bmp"),
        ("TIFF", "image/tiff"),
        ("AVIF", "image/avif"),
    ],
)
def test_each_accepted_format_is_told_with_its_size_and_digest(
    image_format: str, media_type: str
) -> None:
    data = file_of(Image.new("RGB", (64, 48), "teal"), image_format)
    digest = hashlib.sha256(data).hexdigest()
    assert inspect_frame(data) == FrameInfo(media_type, 64, 48, digest)


def test_an_array_saved_by_numpy_is_told_with_its_size() -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros((3, 48, 64), np.uint8))
    info = inspect_frame(buffer.getvalue())
    assert (info.media_type, info.width, info.height) == ("application/x-npy", 64, 48)


def test_pixels_are_never_looked_at() -> None:
    data = png_header(640, 480)
    assert inspect_frame(data).width == 640
    with pytest.raises(FrameError):
        prepare_frame(data)


@pytest.mark.parametrize(
    ("width", "height"), [(32, 32), (32, 640), (640, 32), (8000, 5000), (5000, 8000)]
)
def test_a_size_at_the_limits_is_taken(width: int, height: int) -> None:
    info = inspect_frame(png_header(width, height))
    assert (info.width, info.height) == (width, height)


@pytest.mark.parametrize(
    ("width", "height", "said"),
    [
        (31, 640, "below 32 px"),
        (640, 31, "below 32 px"),
        (0, 640, ""),
        (32, 641, "factor of 20"),
        (641, 32, "factor of 20"),
        (8001, 5000, "over 40 Mpx"),
        (12000, 8000, "over 40 Mpx"),
        (20000, 20000, "over 40 Mpx"),
        (2**31 - 1, 2**31 - 1, "over 40 Mpx"),
    ],
)
def test_a_size_beyond_the_limits_is_refused(width: int, height: int, said: str) -> None:
    assert said in refusal(png_header(width, height)).message


def test_a_bomb_is_refused_whether_or_not_warnings_are_errors() -> None:
    bomb = png_header(12000, 8000)  # Pillow only warns of it
    for action in ("error", "ignore"):
        with warnings.catch_warnings():
            warnings.simplefilter(action)
            assert "40 Mpx" in refusal(bomb).message


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "empty"),
        (b"frame 12 of 40\nok\n", "text"),
        (b"\xef\xbb\xbf<!DOCTYPE html><html>", "HTML"),
        (b"  \n<?xml version='1.0'?><svg/>", "SVG"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n", "PostScript"),
        (b"\xc5\xd0\xd3\xc6" + bytes(60), "PostScript"),
        (b"%PDF-1.7\n", "PDF"),
        (b"PK\x03\x04" + bytes(60), "zip"),
        (b"\x1a\x45\xdf\xa3" + bytes(60), "video"),
        (b"\0\0\0\x18ftypisom\0\0\0\0isommp42", "video"),
        (b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic", "HEIC"),
        (b"\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL"),
        (b"iVBORw0KGgoAAAANSUhEUgAA", "base64"),
        (b"/9j/4AAQSkZJRgABAQ", "base64"),
        (b"data:image/png;base64,iVBORw0KGgo", "data URI"),
        (b"\x00\x01\x02\x03\x80\xff", "no known image format"),
        (b"RIFF\x24\0\0\0WAVEfmt ", "no known image format"),
    ],
)
def test_what_is_no_picture_is_named(data: bytes, said: str) -> None:
    assert said in refusal(data).message


def test_the_name_of_a_file_is_never_opened(tmp_path: Path) -> None:
    path = tmp_path / "frame.png"
    path.write_bytes(file_of(Image.new("RGB", (64, 48)), "PNG"))
    assert "text" in refusal(str(path).encode()).message


def test_ghostscript_is_never_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: Path
) -> None:
    started = tmp_path / "started"
    ghostscript = tmp_path / "gs"
    ghostscript.write_text(f"#!/bin/sh\ntouch {started}\n")
    ghostscript.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    eps = (data / "nasty" / "postscript.eps").read_bytes()
    for disguise in (b"", b"\x89PNG\r\n\x1a\n", b"BM", b"\xff\xd8\xff"):
        with pytest.raises(FrameError):
            prepare_frame(disguise + eps)
    assert not started.exists()


@pytest.mark.parametrize("image_format", ["GIF", "WEBP", "TIFF", "PNG", "AVIF"])
def test_several_pictures_in_one_file_are_refused(image_format: str) -> None:
    first, second = Image.new("RGB", (64, 48), "red"), Image.new("RGB", (64, 48), "blue")
    data = file_of(first, image_format, save_all=True, append_images=[second])
    assert "several pictures" in refusal(data).message


def test_the_main_picture_of_a_phones_jpeg_is_the_frame() -> None:
    main, depth = Image.new("RGB", (64, 48), "red"), Image.new("RGB", (64, 48), "blue")
    data = file_of(main, "MPO", save_all=True, append_images=[depth])
    assert inspect_frame(data).media_type == "image/jpeg"
    sent = Image.open(io.BytesIO(prepare_frame(data).data))
    assert sent.getpixel((30, 20)) == (254, 0, 0)


@pytest.mark.parametrize("mode", ["F", "I"])
def test_values_without_a_defined_range_are_refused(mode: str) -> None:
    assert f"mode {mode}" in refusal(file_of(Image.new(mode, (64, 48)), "TIFF")).message


@pytest.mark.parametrize(
    "stuffing",
    [b"\xff" * 1_000_000, b"\xff\x00" * 500_000, b"\xff\xed\x00\x02" * 250_000],
    ids=["padding", "escaped", "segments"],
)
def test_a_header_of_very_many_parts_is_given_up(stuffing: bytes) -> None:
    jpeg = file_of(Image.new("RGB", (64, 48)), "JPEG")
    assert "too many parts" in refusal(jpeg[:2] + stuffing + jpeg[2:]).message


def test_a_jpeg_of_very_many_scans_is_refused() -> None:
    jpeg = file_of(Image.new("L", (64, 48)), "JPEG", progressive=True)
    scan = jpeg[jpeg.rindex(b"\xff\xda") : -2]
    assert inspect_frame(jpeg[:-2] + 10 * scan + jpeg[-2:]).width == 64
    assert "scans" in refusal(jpeg[:-2] + 100 * scan + jpeg[-2:]).message


def test_a_tiff_of_very_many_strips_is_refused() -> None:
    assert "strips" in refusal(tiff_of(t273=(2_500_000, 8), t279=(2_500_000, 8))).message


def test_a_tiff_of_a_huge_tile_is_refused() -> None:
    tile = {"t324": (1, 8), "t325": (1, 8)}
    assert inspect_frame(tiff_of(t322=(1, 64), t323=(1, 64), **tile)).width == 64
    assert "tile" in refusal(tiff_of(t322=(1, 28000), t323=(1, 28000), **tile)).message


@pytest.mark.parametrize("order", [b"II*\0", b"MM\0*"])
def test_a_tiff_without_a_directory_is_refused(order: bytes) -> None:
    assert refusal(order)
    assert refusal(order + b"\xff\xff\xff\xff")
