"""The hostile files of tests/data/nasty, each handled in a process with 1.5 GiB to spend."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

NASTY = Path(__file__).parents[1] / "data" / "nasty"
EXPECTED: dict[str, Any] = json.loads((NASTY / "nasty.json").read_text("utf-8"))["files"]
ACCEPTED = [name for name, entry in EXPECTED.items() if entry["expect"] == "accept"]
REJECTED = [name for name, entry in EXPECTED.items() if entry["expect"] == "reject"]

# These look right in their headers. All others are told at submission.
REJECTED_BY_DECODING = {
    "truncated.jpg",
    "truncated.png",
    "bad_crc.png",
    "float255.npy",
    "float_pm1.npy",
    "float_nan.npy",
    "float64_depth.npy",
}
# Where the listed mean is that of Pillow's own conversion, and that conversion is wrong.
WRONGLY_CONVERTED = {"rgba.png", "palette_transparency.png", "gray_alpha.png", "gray16.png"}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and measures a process")


@pytest.fixture(scope="module")
def outcomes() -> dict[str, dict[str, Any]]:
    script = Path(__file__).with_name("frames_child.py")
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, script, *(NASTY / name for name in EXPECTED)],
        env={"PYTHONPATH": str(root), "PYTHONWARNINGS": "error", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {line["name"]: line for line in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_good_frame_is_sent_as_an_rgb_jpeg_of_its_upright_size(
    outcomes: dict[str, dict[str, Any]], name: str
) -> None:
    entry, found = EXPECTED[name], outcomes[name]
    assert found["refused_by"] is None, found
    listed = re.search(r"(\d+)x(\d+)", entry["normalised"])
    size = [int(side) for side in listed.groups()] if listed else entry["library"]["size"]
    assert found["size"] == size
    assert found["sent"] == ["JPEG", "RGB", *size]


@pytest.mark.parametrize("name", REJECTED)
def test_a_bad_frame_is_refused_with_a_message_and_a_fix(
    outcomes: dict[str, dict[str, Any]], name: str
) -> None:
    found = outcomes[name]
    assert found["refused_by"], found
    assert found["message"]
    assert found["fix"]


def test_only_what_decoding_alone_can_show_passes_submission_and_is_refused_later(
    outcomes: dict[str, dict[str, Any]],
) -> None:
    late = {name for name, found in outcomes.items() if found["refused_by"] == "prepare"}
    assert late == REJECTED_BY_DECODING


@pytest.mark.parametrize(
    "name",
    [n for n in ACCEPTED if "rgb_mean" in EXPECTED[n]["library"] and n not in WRONGLY_CONVERTED],
)
def test_the_colours_of_a_good_frame_are_kept(
    outcomes: dict[str, dict[str, Any]], name: str
) -> None:
    assert outcomes[name]["mean"] == pytest.approx(EXPECTED[name]["library"]["rgb_mean"], abs=1.0)


def test_16_bits_are_scaled_to_the_same_picture_as_its_8_bit_original(
    outcomes: dict[str, dict[str, Any]],
) -> None:
    assert outcomes["gray16.png"]["sha256_sent"] == outcomes["gray8.png"]["sha256_sent"]
    assert outcomes["gray16.png"]["flags"] == ["scaled_16_bit"]


@pytest.mark.parametrize(
    "name", ["chw_uint8", "fortran_order", "float01", "big_endian", "hwc4_uint8"]
)
def test_every_layout_and_type_of_one_array_gives_the_same_picture(
    outcomes: dict[str, dict[str, Any]], name: str
) -> None:
    assert outcomes[f"{name}.npy"]["sha256_sent"] == outcomes["hwc_uint8.npy"]["sha256_sent"]


@pytest.mark.parametrize(
    ("name", "media_type"),
    [("jpeg_named.png", "image/jpeg"), ("trailing_garbage.jpg", "image/jpeg")],
)
def test_the_type_is_told_by_the_bytes_and_not_by_the_name(
    outcomes: dict[str, dict[str, Any]], name: str, media_type: str
) -> None:
    assert outcomes[name]["media_type"] == media_type


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("header_only.heic", "HEIC"),
        ("svg.png", "SVG"),
        ("html_named.jpg", "HTML"),
        ("zero_byte.png", "empty"),
        ("text.png", "text"),
        ("postscript.eps", "PostScript"),
        ("tiny.jp2", "JPEG 2000"),
        ("npz_named.npy", "zip"),
        ("object_pickle.npy", "pickled"),
        ("bool.npy", "mask"),
        ("uint16.npy", "uint16"),
        ("batch.npy", "(2, 24, 32, 3)"),
        ("float_nan.npy", "NaN"),
        ("float64_depth.npy", "0.3 and 2.5"),
        ("npy_bomb_shape.npy", "64 that follow"),
        ("animated.png", "several pictures"),
        ("float32.tiff", "mode F"),
        ("one_pixel.png", "1 x 1 px"),
        ("bomb_real_12000x12000.png", "40 Mpx"),
        ("bomb_declared_60000x60000.png", "40 Mpx"),
    ],
)
def test_a_refusal_names_what_the_frame_is(
    outcomes: dict[str, dict[str, Any]], name: str, said: str
) -> None:
    assert said in outcomes[name]["message"]


def test_no_file_takes_more_memory_than_its_small_picture_is_worth(
    outcomes: dict[str, dict[str, Any]],
) -> None:
    # Decoded, the bombs would take 130 to 1,900 MB.
    assert max(found["inspect_mb"] for found in outcomes.values()) < 8
    assert max(found["total_mb"] for found in outcomes.values()) < 24
