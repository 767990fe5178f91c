"""Image tokens follow the vendors' formulas, and an unknown family has none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader_service.judging.image_tokens import image_tokens

MODELS = ("claude-opus-4-7", "claude-opus-4-6", "gpt-6-luna", "gpt-5.4-mini", "gpt-4o")
FAMILIES = (*MODELS, "gpt-5-nano", "o4-mini", "gpt-4o-mini", "gpt-5", "o3")

# Worked out from the vendors' guides by hand and by another program.
TABLE = {
    (448, 448): (256, 256, 236, 318, 255),
    (512, 384): (266, 266, 231, 312, 255),
    (640, 480): (414, 414, 360, 487, 425),
    (768, 576): (588, 588, 519, 700, 765),
    (1024, 768): (1036, 1036, 922, 1245, 765),
    (1280, 720): (1196, 1196, 1104, 1491, 1105),
    (1920, 1080): (2691, 1560, 2448, 2443, 1105),
    (3840, 2160): (4784, 1560, 9792, 2443, 1105),
}

# A frame as it is sent: up to 1568 px, at most twenty times as long as wide.
sides = st.integers(32, 1568)
frames = st.tuples(sides, sides).filter(lambda size: max(size) <= 20 * min(size))


@pytest.mark.parametrize("size", TABLE)
def test_each_family_takes_what_its_vendors_guide_says_to_within_one_token(
    size: tuple[int, int],
) -> None:
    for model, expected in zip(MODELS, TABLE[size], strict=True):
        found = image_tokens(model, *size)
        assert found is not None
        assert abs(found - expected) <= 1, model


@pytest.mark.parametrize(
    ("model", "same_as"),
    [
        ("claude-haiku-5-5", "claude-opus-4-7"),
        ("claude-sonnet-5-5-20261001", "claude-opus-4-7"),
        ("claude-fable-5", "claude-opus-4-7"),
        ("claude-opus-4-20250514", "claude-opus-4-6"),
        ("claude-3-5-sonnet-latest", "claude-opus-4-6"),
        ("gpt-6.1-terra", "gpt-6-luna"),
        ("gpt-5.6-sol-2026-07-01", "gpt-6-luna"),
        ("openai/GPT-6-luna", "gpt-6-luna"),
        ("gpt-4.1-2025-04-14", "gpt-4o"),
    ],
)
def test_a_family_is_told_by_the_models_name(model: str, same_as: str) -> None:
    assert image_tokens(model, 1280, 960) == image_tokens(same_as, 1280, 960)


@pytest.mark.parametrize("model", ["qwen3-vl", "gpt-7", "my-gpt-4o", "gpt-4o-ft", "claude", ""])
def test_an_unknown_family_has_no_count(model: str) -> None:
    assert image_tokens(model, 768, 576) is None


@given(frames)
def test_turning_a_frame_changes_no_count(size: tuple[int, int]) -> None:
    width, height = size
    for model in FAMILIES:
        assert image_tokens(model, width, height) == image_tokens(model, height, width)


@given(frames)
def test_every_frame_takes_some_tokens_and_no_more_than_the_familys_limit(
    size: tuple[int, int],
) -> None:
    limits = {"claude-opus-4-7": 4784, "claude-opus-4-6": 1568, "gpt-5.4-mini": 2489}
    for model in FAMILIES:
        found = image_tokens(model, *size)
        assert found is not None
        assert 1 <= found <= limits.get(model, 10**6), model
