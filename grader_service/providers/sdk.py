"""What the adapters share: one call through an SDK, bounded, translated, and learnt from."""

from __future__ import annotations

import importlib.util
import logging
import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

import httpx2

from grader_service.errors import JudgeError, SetupError
from grader_service.providers import transport
from grader_service.providers.base import Answer, Ask, ProviderConfig, Rung, RungRefusedError, Wire
from grader_service.providers.failures import (
    Refusal,
    failed_inside,
    not_reached,
    refused,
    unreadable,
)
from grader_service.providers.per_process import PerProcess
from grader_service.providers.rate_limits import rate_limits
from grader_service.records.strict_json import strict_loads

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

# What a server that needs no key is given: the SDKs and some servers insist on one.
NO_KEY: Final = "none"

FORM_NAMED: Final = re.compile(
    r"response_format|text\.format|^text$|output_config(?!\.effort)|output_format"
    r"|json_schema|json_object|structured[ _-]?output|guided[ _-](json|decoding)",
    re.IGNORECASE,
)
EFFORT_NAMED: Final = re.compile(
    r"\beffort\b|reasoning_effort|^reasoning$|['\"`]reasoning['\"`]", re.IGNORECASE
)
_REFUSES_PARAMETERS: Final = (400, 422)
_QUIET: Final = ("openai", "anthropic", "httpx2", "httpcore2")


class StreamedResponse(Protocol):
    """What both SDKs give under `with_streaming_response`."""

    @property
    def headers(self) -> Mapping[str, str]: ...

    def iter_bytes(self) -> Iterator[bytes]: ...


class SdkProvider(ABC):
    """One endpoint and model behind an SDK's client.

    A subclass says how a request is put together and which of its parameters may be refused.
    """

    wire: ClassVar[Wire]
    package: ClassVar[str]
    request_id_header: ClassVar[str]
    # How a refusal names each parameter that the endpoint may do without.
    droppable: ClassVar[Mapping[str, re.Pattern[str]]]
    # Where the wire's usage object has each count that we keep.
    usage_paths: ClassVar[Mapping[str, tuple[str, ...]]]

    def __init__(self, config: ProviderConfig) -> None:
        if importlib.util.find_spec(self.package) is None:
            raise SetupError(
                f"a judge of kind {config.kind!r} needs the package {self.package!r}",
                fix="pip install 'robot-autograder[server]'",
            )
        self.config = config
        self._key = config.api_key or NO_KEY
        self._clients = PerProcess(self._build)
        # Learnt from refusals. Only ever added to, so threads need no lock.
        self._refused: set[str] = set()
        self._refused_rungs: set[Rung] = set()

    def ask(self, ask: Ask) -> Answer:
        """Make one call; see `Provider.ask`."""
        self._check_rung(ask.rung)
        self.warm()  # the first time takes seconds, which are not the endpoint's
        with transport.deadline(ask.deadline_s):
            while True:  # ends: each turn drops one of the few droppable parameters
                offered = {
                    name: value
                    for name, value in self._parameters(ask).items()
                    if name not in self._refused
                }
                try:
                    return self._call(ask, offered)
                except transport.RefusedError as error:
                    refusal = Refusal.of(error)
                    failure = self._failure(refusal)
                if not self._learn(refusal, offered, ask.rung):
                    raise failure

    def warm(self) -> None:
        """Load the SDK and build this process's client. Nothing is sent."""
        self._resource(self._clients.get())

    def close(self) -> None:
        client = self._clients.take()
        if client is not None:
            client.close()

    def _check_rung(self, rung: Rung) -> None:
        if rung in self._refused_rungs:
            raise RungRefusedError(rung, f"{self.config.model} does not take {rung} here")

    def _learn(self, refusal: Refusal, offered: Mapping[str, Any], rung: Rung) -> bool:
        """Note what is refused; return whether to ask again. Raises RungRefusedError."""
        if refusal.status not in _REFUSES_PARAMETERS:
            return False
        for name in offered:
            if name in self.droppable and refusal.names(self.droppable[name]):
                self._refused.add(name)
                return True
        if rung != "text" and refusal.names(FORM_NAMED):
            self._refused_rungs.add(rung)
            self._check_rung(rung)
        return False

    def _call(self, ask: Ask, offered: Mapping[str, Any]) -> Answer:
        request = {"model": self.config.model, **self._messages(ask), **self._nest(ask, offered)}
        resource = self._resource(self._clients.get())
        problem: Exception
        try:
            timeout = httpx2.Timeout(transport.time_left())
            with self._open(resource, request, timeout) as response:
                headers = response.headers
                data = b"".join(_capped(response.iter_bytes(), ask.max_bytes))
        except (*transport.TRANSPORT_ERRORS, httpx2.DecodingError, self._sdk_error()) as error:
            problem = error
        else:
            return self._answer(ask, offered, data, headers)
        # Outside of the except block: the SDK's error holds the request, its key and its frames.
        raise self._translated(problem)

    def _translated(self, error: BaseException) -> Exception:
        """Return the error of ours that an error of the SDK comes to, by what caused it."""
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, transport.RefusedError):
                return cause
            if isinstance(cause, httpx2.DecodingError):
                return unreadable("its body can't be decompressed")
            if isinstance(cause, transport.TRANSPORT_ERRORS):
                return not_reached(cause)
            cause = cause.__cause__
        return not_reached(error)

    def _answer(
        self, ask: Ask, offered: Mapping[str, Any], data: bytes, headers: Mapping[str, str]
    ) -> Answer:
        request_id = headers.get(self.request_id_header)
        try:
            body = strict_loads(data)
        except ValueError as error:
            raise unreadable(str(error), status_code=200, request_id=request_id) from None
        if not isinstance(body, dict):
            problem = f"a JSON {type(body).__name__}"
            raise unreadable(problem, status_code=200, request_id=request_id)
        if body.get("error"):
            raise failed_inside(body["error"], request_id=request_id, secret=self._key)
        model = body.get("model")
        return Answer(
            wire=self.wire,
            body=body,
            rung=ask.rung,
            model=model if isinstance(model, str) else None,
            request_id=request_id,
            parameters={**offered, "response_format": ask.rung, **self._constants()},
            usage=self._usage(body.get("usage")),
            rate_limits=rate_limits(headers),
        )

    def _failure(self, refusal: Refusal) -> JudgeError:
        request_id = refusal.headers.get(self.request_id_header)
        return refused(refusal, request_id=request_id, secret=self._key)

    def _build(self) -> Any:
        http = transport.http_client(
            tls=self.config.url.startswith("https:"),
            max_connections=self.config.max_connections,
            auth=self._auth(self._key),
        )
        client = self._client(http)
        # After the SDK was imported, since importing it may set levels. At DEBUG some log frames.
        for name in _QUIET:
            logging.getLogger(name).setLevel(logging.WARNING)
        return client

    @abstractmethod
    def _client(self, http: httpx2.Client) -> Any:
        """Return the SDK's client on top of `http`, without retries."""

    @abstractmethod
    def _auth(self, key: str) -> Mapping[str, str]:
        """Return the headers that carry the key."""

    @abstractmethod
    def _sdk_error(self) -> type[Exception]:
        """Return the class of what the SDK raises when a call fails."""

    @abstractmethod
    def _resource(self, client: Any) -> Any:
        """Return the part of the client whose `create` makes the call."""

    @abstractmethod
    def _messages(self, ask: Ask) -> dict[str, Any]:
        """Return the request's system text and user turn."""

    @abstractmethod
    def _parameters(self, ask: Ask) -> dict[str, Any]:
        """Return what else is asked for, by the name under which it may be refused."""

    @abstractmethod
    def _nest(self, ask: Ask, offered: Mapping[str, Any]) -> dict[str, Any]:
        """Return `offered` and the form of the answer as the wire wants them."""

    def _constants(self) -> dict[str, Any]:
        """Return what every request has besides, for the record."""
        return {}

    def _usage(self, usage: Any) -> dict[str, int] | None:
        """Return those counts of a usage object that are there."""
        found: dict[str, int] = {}
        for name, path in self.usage_paths.items():
            value = usage
            for step in path:
                value = value.get(step) if isinstance(value, dict) else None
            if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                found[name] = value
        return found or None

    def _open(
        self, resource: Any, request: Mapping[str, Any], timeout: httpx2.Timeout
    ) -> AbstractContextManager[StreamedResponse]:
        opened: AbstractContextManager[StreamedResponse] = resource.with_streaming_response.create(
            **request, timeout=timeout
        )
        return opened


def _capped(chunks: Iterable[bytes], limit: int) -> Iterator[bytes]:
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > limit:
            raise unreadable(f"its body is over {limit} bytes")
        yield chunk
