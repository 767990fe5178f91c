"""What a provider is asked, what it answers, and the port that every adapter implements."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol
from urllib.parse import urlsplit

from grader_service.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grader_service.providers.rate_limits import RateLimit

Kind = Literal["openai", "openai-responses", "anthropic"]
Wire = Literal["openai.chat", "openai.responses", "anthropic.messages"]
Rung = Literal["json_schema", "json_object", "text"]

VENDOR_URLS: Final[Mapping[Kind, str]] = {
    "openai": "https://api.openai.com/v1",
    "openai-responses": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
}

# Strictest form of answer first; an endpoint that refuses one is asked with the next.
RUNGS: tuple[Rung, ...] = ("json_schema", "json_object", "text")


@dataclass(frozen=True, slots=True)
class Image:
    """One encoded image, `data` being the bytes of a file of `media_type`."""

    media_type: str
    data: bytes


Part = str | Image


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """Where a model is and how it is reached.

    `base_url` None means the vendor's own; another endpoint may need no key. `effort` is sent as
    the vendor's reasoning effort, `detail` with every image on OpenAI's wires.
    Raises SetupError for a URL or key that no request could carry.
    """

    kind: Kind
    model: str
    base_url: str | None = None
    api_key: str = field(default="", repr=False)
    effort: str | None = None
    detail: str = "high"
    max_connections: int = 64

    def __post_init__(self) -> None:
        if self.kind not in VENDOR_URLS:
            raise SetupError(
                f"there is no provider {self.kind!r}", fix=f"use one of {', '.join(VENDOR_URLS)}"
            )
        if not _is_api_url(self.url):
            raise SetupError(
                f"the base_url of model {self.model!r} is not the http(s) address of an API",
                fix="give it as https://host/v1, without user or password",
            )
        if not self.api_key and self.base_url is None:
            raise SetupError(
                f"model {self.model!r} is asked at {self.url}, which needs an API key",
                fix="set the judge's API key, or its base_url to an endpoint that needs none",
            )
        if any(not "!" <= char <= "~" for char in self.api_key):
            raise SetupError(
                f"the API key of model {self.model!r} has a character that no header can carry",
                fix="look for a space or a line end that was copied with the key",
            )

    @property
    def url(self) -> str:
        """The address that the SDK is given; anthropic's adds /v1 by itself."""
        if self.base_url is None:
            return VENDOR_URLS[self.kind]
        url = self.base_url.rstrip("/")
        return url.removesuffix("/v1") if self.kind == "anthropic" else url


def _is_api_url(text: str) -> bool:
    try:
        url = urlsplit(text)
        url.port  # noqa: B018 - reading it is what checks it
    except ValueError:
        return False
    return url.scheme in ("http", "https") and bool(url.hostname) and "@" not in url.netloc


@dataclass(frozen=True, slots=True)
class Ask:
    """One model call: a system text and the parts of one user turn, texts and images in order.

    `schema` is the JSON schema of the answer (used by the rung json_schema). `max_tokens` bounds
    what the model writes, thinking included. `deadline_s` bounds the whole call by wall clock (but
    for the name lookup) and `max_bytes` the decompressed body.
    """

    system: str
    parts: tuple[Part, ...]
    rung: Rung
    schema: Mapping[str, Any]
    max_tokens: int = 4096
    deadline_s: float = 120.0
    max_bytes: int = 1_000_000


@dataclass(frozen=True, slots=True)
class Answer:
    """A response object as it came over the wire, and what is known of the call.

    `parameters` holds what the endpoint accepted besides model and messages. `body` is the parsed
    response object; whether it holds a verdict is for the reply grammar to say. `usage` has
    input_tokens (all of them, cached ones included) and output_tokens, and where the endpoint
    tells them cached_tokens, cache_write_tokens and reasoning_tokens. `rate_limits` is what the
    response's headers tell of them.
    """

    wire: Wire
    body: Any
    rung: Rung
    model: str | None
    request_id: str | None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    usage: Mapping[str, int] | None = None
    rate_limits: tuple[RateLimit, ...] = ()


class Provider(Protocol):
    """One endpoint and model. Thread-safe; a process that was forked makes its own client."""

    @property
    def wire(self) -> Wire: ...

    def ask(self, ask: Ask) -> Answer:
        """Make one call, without retries.

        Raises TryLaterError, PermanentError or BadOutputError (grader_service.errors). An endpoint
        that refuses the rung raises RungRefusedError, from then on without a call; a parameter that
        it refuses is dropped, remembered and left out from then on.
        """
        ...

    def warm(self) -> None:
        """Load the SDK and build the client, without asking the endpoint."""
        ...

    def close(self) -> None: ...


class RungRefusedError(Exception):
    """The endpoint does not take this form of answer; ask with the next rung."""

    def __init__(self, rung: Rung, message: str) -> None:
        super().__init__(message)
        self.rung = rung
