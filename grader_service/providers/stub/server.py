"""The stub as a server: three wires, its log, and its control routes."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from grader_service.errors import UsageError
from grader_service.providers.stub import http
from grader_service.providers.stub.answers import (
    Opinion,
    content_key,
    criteria_of,
    met_for,
    opinion_of,
    say,
)
from grader_service.providers.stub.faults import (
    TRANSPORT,
    Fault,
    FaultError,
    RandomFaults,
    Response,
    http_fault,
)
from grader_service.providers.stub.script import Script, ScriptError, read_rules
from grader_service.providers.stub.spoilt import SPOILERS, spoilt
from grader_service.providers.stub.wires import (
    PATHS,
    Request,
    Said,
    SentImage,
    error_body,
    read_request,
    write_response,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grader_service.providers.stub.script import ScriptedReply

MODEL_PREFIX: Final = "stub:"
_SECRET_HEADERS: Final = frozenset(
    {"authorization", "x-api-key", "api-key", "cookie", "proxy-authorization"}
)
_MAX_LOG: Final = 10_000

T = TypeVar("T")


@dataclass(slots=True)
class _Call:
    """One call on the way to its answer, and what the log says of it."""

    request: Request
    entry: dict[str, Any]

    def key(self) -> str:
        """Return the content key, made only if it is needed, since that decodes the images."""
        if self.entry["key"] is None:
            self.entry["key"] = content_key(self.request)
        key: str = self.entry["key"]
        return key


class StubModel:
    """A stub model server; as a context manager it runs in a thread of its own.

    `latency` in seconds is the least time from a request to its answer. `faults` is what
    `RandomFaults` takes. Raises UsageError for a script or faults that are none.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        script: Sequence[Any] = (),
        latency: float = 0.0,
        faults: str = "",
        seed: int = 0,
    ) -> None:
        self._host = host
        self._port = port
        self._latency = latency
        self._random = _usable(lambda: RandomFaults(faults, seed))
        self._script = Script()
        self._firsts: Counter[tuple[str, str]] = Counter()
        self._log: deque[dict[str, Any]] = deque(maxlen=_MAX_LOG)
        self._numbers = count(1)
        self._connections: set[asyncio.Task[None]] = set()
        self._stop: Callable[[], object] = lambda: None
        self.script(script)

    # --- for whoever holds the object: any thread -----------------------------------------------

    @property
    def port(self) -> int:
        return self._port

    @property
    def root_url(self) -> str:
        return f"http://{self._host}:{self._port}"

    @property
    def url(self) -> str:
        """The base_url to give to a provider."""
        return f"{self.root_url}/v1"

    @property
    def log(self) -> list[dict[str, Any]]:
        """Return what was asked so far, oldest first, without what authenticates.

        Each entry has wire, model, system, texts, images (media_type, sha256 and size in bytes of
        each file, detail), form, parameters, headers, auth (the names of headers that are left
        out), fault (None or its text) and key (None where none was needed).
        """
        return [dict(entry) for entry in self._log]

    def script(self, rules: Sequence[Any]) -> None:
        """Take `rules`, in their JSON form, in place of those before. Raises UsageError."""
        self._script = Script(_usable(lambda: read_rules(list(rules))))

    def reset(self) -> None:
        """Forget the script, the log and all counts."""
        self._script = Script()
        self._log.clear()
        self._firsts.clear()
        self._random.reset()

    def __enter__(self) -> Self:
        started = threading.Event()
        failed: list[BaseException] = []

        def run() -> None:
            try:
                asyncio.run(self.serve(lambda _: started.set()))
            except BaseException as error:  # noqa: BLE001 - told to the thread that waits
                failed.append(error)
                started.set()

        self._thread = threading.Thread(target=run, name="stub-model", daemon=True)
        self._thread.start()
        started.wait()
        if failed:
            raise failed[0]
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._thread.join()

    async def serve(self, started: Callable[[StubModel], None]) -> None:
        """Serve until `stop` is called or the task is cancelled. `started` is called when bound."""
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._stop = lambda: loop.call_soon_threadsafe(stopping.set)
        server = await asyncio.start_server(
            self._connected, self._host, self._port, limit=http.MAX_HEAD_BYTES, backlog=1024
        )
        self._port = server.sockets[0].getsockname()[1]
        try:
            started(self)
            await stopping.wait()
        finally:
            server.close()
            for task in self._connections:
                task.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    def stop(self) -> None:
        self._stop()

    # --- on the loop ----------------------------------------------------------------------------

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # the callback of a stream runs in a task
        self._connections.add(task)
        try:
            while (request := await http.read(reader)) is not None:
                if not await self._answer(request, reader, writer):
                    break
        except http.HttpError as error:
            await http.write(writer, _problem(error.status, str(error)))
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client or the server goes: nobody is left to tell
        finally:
            self._connections.discard(task)
            writer.close()

    async def _answer(
        self,
        request: http.HttpRequest,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Answer one request; return whether the connection can take another."""
        wire = PATHS.get(request.path)
        if wire is None or request.method != "POST":
            await http.write(writer, self._control(request))
            return True
        arrived = time.monotonic()
        try:
            call = self._note(request, read_request(wire, json.loads(request.body)))
            fault, latency, said = self._decide(call)
        except (ValueError, RecursionError) as error:
            message = str(error) or "the body is no JSON"
            await http.write(writer, Response.of(error_body(wire, 400, f"Stub: {message}"), 400))
            return True
        await asyncio.sleep(arrived + latency - time.monotonic())
        number = next(self._numbers)
        ids = {"x-request-id": f"req-stub-{number}", "request-id": f"req-stub-{number}"}
        body = json.dumps(write_response(call.request, said, number)).encode()
        good = Response(200, body, ids)
        if fault is not None and fault.name in TRANSPORT:
            await http.write_badly(reader, writer, fault, good)
            return False
        bad = http_fault(fault, call.request, good) if fault is not None else None
        await http.write(writer, bad.with_headers(ids) if bad is not None else good)
        return True

    def _note(self, request: http.HttpRequest, read: Request) -> _Call:
        entry = {
            "wire": read.wire,
            "model": read.model,
            "system": read.system,
            "texts": [part for part in read.parts if isinstance(part, str)],
            "images": [_image(part) for part in read.parts if isinstance(part, SentImage)],
            "form": read.form,
            "parameters": dict(read.parameters),
            "headers": {
                name: value
                for name, value in request.headers.items()
                if name not in _SECRET_HEADERS
            },
            "auth": sorted(_SECRET_HEADERS & request.headers.keys()),
            "fault": None,
            "key": None,
        }
        self._log.append(entry)
        return _Call(read, entry)

    def _decide(self, call: _Call) -> tuple[Fault | None, float, Said]:
        """Return the fault, the latency and the answer.

        The fault is named by a header, else by the model, else by the script, else it is chance.
        """
        latency = self._latency
        reply: ScriptedReply | None = None
        picked = self._script.pick(call.request, call.key)
        if picked is not None:
            rule, reply = picked
            latency = latency if rule.latency is None else rule.latency
        named = call.entry["headers"].get("x-stub-fault")
        if named is None and call.request.model.startswith(MODEL_PREFIX):
            named = call.request.model.removeprefix(MODEL_PREFIX)
        if named is None and reply is not None:
            named = reply.fault
        fault = Fault.parse(named) if named else None
        if fault is None and self._random:
            fault = self._random.pick(call.key())
        if fault is not None and fault.first is not None:
            turn = (fault.text, call.key())
            self._firsts[turn] += 1
            fault = fault if self._firsts[turn] <= fault.first else None
        call.entry["fault"] = fault.text if fault else None
        return fault, latency, self._said(call, fault, reply)

    def _said(self, call: _Call, fault: Fault | None, reply: ScriptedReply | None) -> Said:
        if fault is not None and fault.name not in SPOILERS and fault.name not in _NEED_ANSWER:
            return Said("")
        if reply is not None and reply.text is not None:
            return Said(reply.text)
        criteria = criteria_of(call.request)
        if reply is not None and reply.verdict is not None:
            met = met_for(reply.verdict, criteria) | reply.met
            opinion = Opinion(reply.verdict, met, reply.rationale, 0.9)
        else:
            opinion = opinion_of(call.key(), criteria)
        if fault is not None and fault.name in SPOILERS:
            return spoilt(fault.name, opinion, call.request)
        return say(opinion, call.request)

    def _control(self, request: http.HttpRequest) -> Response:
        match request.method, request.path:
            case "GET", "/healthz":
                return Response.of({"status": "ok"})
            case "GET", "/v1/models":
                model = {"id": "stub", "object": "model", "owned_by": "stub", "created": 0}
                return Response.of({"object": "list", "data": [model]})
            case "GET", "/__log":
                return Response.of(self.log)
            case "POST", "/__reset":
                self.reset()
                return Response.of({})
            case "POST", "/__script":
                try:
                    self.script(json.loads(request.body))
                except (ValueError, TypeError, RecursionError) as error:
                    return _problem(400, str(error))
                return Response.of({})
            case _:
                return _problem(404, f"there is no {request.method} {request.path} here")


# Faults that change how a good answer is sent, or leave it be.
_NEED_ANSWER: Final = frozenset({"rst_mid", "short", "drip", "drip_head", "wrong_ctype", "reject"})


def _image(image: SentImage) -> dict[str, Any]:
    return {
        "media_type": image.media_type,
        "sha256": image.sha256,
        "size": image.size,
        "detail": image.detail,
    }


def _problem(status: int, message: str) -> Response:
    return Response.of({"error": {"message": f"Stub: {message}"}}, status)


def _usable(make: Callable[[], T]) -> T:
    try:
        return make()
    except (FaultError, ScriptError) as error:
        raise UsageError(str(error), fix="see autograder stub-model --help") from None
