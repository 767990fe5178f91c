"""A stub to ask, and asks to make of it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image as PillowImage

from grader_service.providers import build_provider
from grader_service.providers.base import Ask, Image, Kind, Provider, ProviderConfig, Rung
from grader_service.providers.stub import StubModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MARK = "t-0123456789abcdef"
PROMPT = """\
Task given to the robot:
<data-0a1b2c name="task">
Put the red cube on the pad.
</data-0a1b2c>

Criteria (id, required or optional, statement):
<data-0a1b2c name="criteria">
- in_goal (required): In the LAST frame the cube lies on the pad.
- released (required): In the LAST frame nothing holds the cube.
- intact (optional): No other object was knocked over.
</data-0a1b2c>

Trial token: {mark}"""


def _picture(colour: str, format_: str = "PNG") -> Image:
    data = io.BytesIO()
    PillowImage.new("RGB", (64, 48), colour).save(data, format_)
    return Image(f"image/{format_.lower()}", data.getvalue())


@pytest.fixture(scope="session")
def picture() -> Callable[..., Image]:
    """Make an encoded image of one colour."""
    return _picture


@pytest.fixture(scope="session")
def make_ask(picture: Callable[..., Image]) -> Callable[..., Ask]:
    """Make an ask about a red first and a green last frame; keywords change it."""

    def make(rung: Rung = "json_schema", *, marked: str = MARK, **changes: Any) -> Ask:
        parts = (
            "Frame 1 of 2: FIRST, camera front",
            picture("red"),
            "Frame 2 of 2: LAST, camera front",
            picture("green", "JPEG"),
            PROMPT.format(mark=marked),
        )
        given: dict[str, Any] = {"parts": parts, "deadline_s": 20.0, "max_tokens": 4096, **changes}
        schema = {"type": "object", "properties": {"failure_mode": {"type": "string"}}}
        return Ask(system="You grade trials.", rung=rung, schema=schema, **given)

    return make


@pytest.fixture(scope="session")
def running_stub() -> Iterator[StubModel]:
    with StubModel() as stub:
        yield stub


@pytest.fixture
def stub(running_stub: StubModel) -> StubModel:
    """A running stub without a memory of other tests."""
    running_stub.reset()
    return running_stub


@pytest.fixture
def connect(stub: StubModel) -> Iterator[Callable[..., Provider]]:
    """Make a provider that asks the stub; `fault` names one by way of the model."""
    providers: list[Provider] = []

    def make(kind: Kind, *, fault: str | None = None, **changes: Any) -> Provider:
        model = f"stub:{fault}" if fault else "some-model"
        given: dict[str, Any] = {
            "model": model,
            "base_url": stub.url,
            "api_key": "key-1",
            **changes,
        }
        provider = build_provider(ProviderConfig(kind=kind, **given))
        providers.append(provider)
        return provider

    yield make
    for provider in providers:
        provider.close()
