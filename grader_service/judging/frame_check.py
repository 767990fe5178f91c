"""What a frame may be, told from magic bytes and header alone: nothing here decodes a pixel."""

from __future__ import annotations

import io
import struct
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PIL import Image, UnidentifiedImageError
from PIL.TiffImagePlugin import STRIPOFFSETS, TILELENGTH, TILEOFFSETS, TILEWIDTH, TiffImageFile

from grader_service.errors import FrameError
from grader_service.judging import npy
from grader_service.records.canonical import digest

if TYPE_CHECKING:
    from collections.abc import Iterator

# Pillow's own limit lets 89 Mpx pass silently and 178 Mpx with a warning. Preparing 40 Mpx takes
# 0.6 GB at most (WEBP).
MAX_PIXELS = 40_000_000
# A judge sees nothing in less, and vision endpoints refuse it.
MIN_SIDE = 32
# A longer strip has too few pixels left across once its long edge is scaled down.
MAX_ASPECT = 20

# A picture has tens of header parts, a large GIF some ten thousand blocks. Each costs Pillow an
# interpreted step, so ten hostile megabytes would otherwise keep it busy for seconds.
_MAX_READS = 250_000
# Progressive JPEG writers make about ten scans; each one costs a pass over the whole picture.
_MAX_SCANS = 64
_MAX_TIFF_PARTS = 65_536

# I and F have no defined range: what is white in them is anyone's guess.
_MODES = frozenset(
    {"1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "I;16", "I;16B", "I;16L"}
)

NPY_MEDIA_TYPE = "application/x-npy"
_MEDIA_TYPES = {
    "PNG": "image/png",
    "JPEG": "image/jpeg",
    "WEBP": "image/webp",
    "GIF": "image/gif",
    "BMP": "image/bmp",
    "TIFF": "image/tiff",
    "AVIF": "image/avif",
    "NPY": NPY_MEDIA_TYPE,
}
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"\xff\xd8\xff", "JPEG"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"BM", "BMP"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
    (npy.MAGIC, "NPY"),
)

_ACCEPTED_FIX = (
    "send one still picture as PNG, JPEG, WEBP, GIF, BMP, TIFF or AVIF, or an array as .npy"
)
_DAMAGED_FIX = "it is damaged, cut short or stuffed with metadata: save it again as PNG or JPEG"
_STRANGERS = (
    (b"\0\0\0\x0cjP  ", "a JPEG 2000 image", "convert it to PNG or JPEG"),
    (b"\xffO\xffQ", "a JPEG 2000 image", "convert it to PNG or JPEG"),
    (b"\0\0\0\x0cJXL ", "a JPEG XL image", "convert it to PNG or JPEG"),
    (b"%!PS", "a PostScript (EPS) file", "render it to PNG"),
    (b"\xc5\xd0\xd3\xc6", "a PostScript (EPS) file", "render it to PNG"),
    (b"%PDF", "a PDF document", "render it to PNG"),
    (b"PK\x03\x04", "a zip archive (.npz?)", "save the one array with numpy.save"),
    (b"\x1a\x45\xdf\xa3", "a video (WebM, MKV)", "send its first and last picture as frames"),
    (b"iVBORw0KGgo", "a PNG in base64", "send the bytes themselves, not their base64 text"),
    (b"/9j/", "a JPEG in base64", "send the bytes themselves, not their base64 text"),
    (b"data:", "a data URI", "send the bytes themselves, not their base64 text"),
)
_AVIF_BRANDS = frozenset({b"avif", b"avis"})
_HEIC_BRANDS = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"mif1", b"msf1"})

# What Pillow and the decoders under it raise for hostile bytes. `Warning` is for callers that
# turned warnings into errors.
DECODER_ERRORS = (
    OSError,
    ValueError,
    SyntaxError,
    TypeError,
    LookupError,
    ArithmeticError,
    RuntimeError,
    EOFError,
    MemoryError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
    Warning,
)


@dataclass(frozen=True, slots=True)
class FrameInfo:
    """What the header of a frame says. `width` and `height` are as stored, before EXIF turns it."""

    media_type: str
    width: int
    height: int
    sha256: str


def inspect_frame(data: bytes) -> FrameInfo:
    """Return what the header of a frame says, at the cost of its sha256 and a header parse.

    Raises FrameError for whatever is not one still picture of an accepted format, 32 px or more
    on each side, 40 Mpx or less and at most 20 times as long as wide. A picture that passes may
    still fail to decode.
    """
    name = sniff(data)
    if name == "NPY":
        header = npy.read_header(data)
        width, height = header.width, header.height
    else:
        width, height = open_picture(data).size
    _check_size(width, height)
    return FrameInfo(_MEDIA_TYPES[name], width, height, digest(data))


def open_picture(data: bytes) -> Image.Image:
    """Return the picture in `data`, its header read and no pixel decoded.

    Only the decoder of the format that the magic bytes name is tried, so none that starts
    another program (EPS) is reached. Raises FrameError.
    """
    name = sniff(data)
    with decoding():
        if name == "TIFF":
            _check_tiff_parts(data)
        if name == "JPEG" and data.count(b"\xff\xda") > _MAX_SCANS:
            raise FrameError(f"the JPEG has more than {_MAX_SCANS} scans", fix="save it again")
        image = Image.open(_CountedReader(data), formats=(name,))
        # A JPEG of several pictures (MPO: phones append a depth or gain map) has a main one.
        if image.format != "MPO" and getattr(image, "is_animated", False):
            raise FrameError(
                f"the {name} holds several pictures; which one is the frame is unclear",
                fix="send the one picture that is meant",
            )
        if isinstance(image, TiffImageFile):
            _check_tiff_tile(image)
    if image.mode not in _MODES:
        raise FrameError(
            f"the {name} has values of mode {image.mode}, whose range is not defined",
            fix="save it with 8 or 16 bits per channel",
        )
    return image


@contextmanager
def decoding() -> Iterator[None]:
    """Turn everything that decoders raise for bad bytes into FrameError."""
    try:
        yield
    except FrameError:
        raise
    except UnidentifiedImageError as error:
        raise FrameError("the header of the image can't be read", fix=_DAMAGED_FIX) from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise FrameError(
            f"the image is over {MAX_PIXELS // 1_000_000} Mpx", fix="scale it down"
        ) from error
    except DECODER_ERRORS as error:
        raise FrameError(
            f"the image can't be decoded: {str(error)[:200] or type(error).__name__}",
            fix=_DAMAGED_FIX,
        ) from error


def sniff(data: bytes) -> str:
    """Return the name of the accepted format that the magic bytes show, "NPY" being one.

    Raises FrameError that names what `data` is instead.
    """
    for magic, name in _MAGIC:
        if data.startswith(magic):
            return name
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "WEBP"
    if data[4:8] == b"ftyp" and _brands(data) & _AVIF_BRANDS:
        return "AVIF"
    what, fix = _stranger(data)
    raise FrameError(f"the frame is {what}", fix=fix)


def _stranger(data: bytes) -> tuple[str, str]:
    """Return what unaccepted bytes are, and what to do about it."""
    if not data:
        return "empty", "send the bytes of the picture"
    for magic, what, fix in _STRANGERS:
        if data.startswith(magic):
            return what, fix
    if data[4:8] == b"ftyp":
        if _brands(data) & _HEIC_BRANDS:
            return "a HEIC image", "convert it to JPEG, or set the camera to JPEG"
        return "a video (MP4, MOV)", "send its first and last picture as frames"
    start = data[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith(b"<"):
        if b"<svg" in start:
            return "an SVG drawing", "render it to PNG"
        return "an HTML or XML page", "send the picture; a download may have stored an error page"
    if start.isascii() and start.decode().replace("\n", " ").isprintable():
        return "text", _ACCEPTED_FIX
    return "of no known image format", _ACCEPTED_FIX


def _brands(data: bytes) -> frozenset[bytes]:
    """Return the brands in the `ftyp` box that starts an ISO media file (ISO/IEC 14496-12)."""
    end = min(int.from_bytes(data[:4], "big"), 256)
    return frozenset({data[8:12]} | {data[at : at + 4] for at in range(16, end, 4)})


def _check_size(width: int, height: int) -> None:
    size = f"the picture is {width} x {height} px"
    if min(width, height) < MIN_SIDE:
        raise FrameError(
            f"{size}; a side below {MIN_SIDE} px shows a judge nothing", fix="send a larger picture"
        )
    if width * height > MAX_PIXELS:
        raise FrameError(f"{size}, over {MAX_PIXELS // 1_000_000} Mpx", fix="scale it down")
    if max(width, height) > MAX_ASPECT * min(width, height):
        raise FrameError(
            f"{size}; its sides differ by more than a factor of {MAX_ASPECT}", fix="crop it"
        )


def _check_tiff_parts(data: bytes) -> None:
    """Refuse a TIFF of very many strips or tiles: Pillow makes an object of each on opening.

    Reads the first directory of the file: 12 bytes per entry, of tag, type, count and value.
    """
    order = "<" if data.startswith(b"II") else ">"
    (start,) = struct.unpack_from(f"{order}I", data, 4)
    (entries,) = struct.unpack_from(f"{order}H", data, start)
    directory = data[start + 2 : start + 2 + 12 * entries]
    for tag, _, count, _ in struct.iter_unpack(f"{order}HHII", directory):
        if tag in (STRIPOFFSETS, TILEOFFSETS) and count > _MAX_TIFF_PARTS:
            raise FrameError(
                f"the TIFF has more than {_MAX_TIFF_PARTS} strips or tiles", fix="save it again"
            )


def _check_tiff_tile(image: TiffImageFile) -> None:
    """Refuse a TIFF whose tile is larger than a picture may be: a tile is decoded whole."""
    tile = int(image.tag_v2.get(TILEWIDTH, 0)) * int(image.tag_v2.get(TILELENGTH, 0))
    if tile > MAX_PIXELS:
        raise FrameError(f"a tile of the TIFF is over {MAX_PIXELS} px", fix="save it again")


class _CountedReader(io.BytesIO):
    """A file in memory that can be read a limited number of times."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._reads_left = _MAX_READS

    def read(self, size: int | None = -1, /) -> bytes:
        self._reads_left -= 1
        if self._reads_left < 0:
            raise OSError("it is made of too many parts")
        return super().read(size)
