"""Faults: their grammar, the responses that they make, and seeded random ones.

    fault   = [ "first" N ":" ] name [ ":" argument ] { ";" option "=" value }
    name    = a status code (429, 500, …), or a name in NAMES

`first2:500` fails the first two calls of each content key. Options of a status code: `ra` (sent as
Retry-After; `ra=date+30` makes an HTTP date in 30 s), `ram` (retry-after-ms), `xsr`
(x-should-retry), `code` (the error's code). `reject:NAME+NAME` answers 400 while the request has
one of these parameters; options `as` (`param`: in a field of its own, `message`: in prose,
`detail`: as FastAPI does) and `status`. `redirect:PORT` sends to another port, `drip:SECONDS`
waits so long before each byte; what happens below HTTP has the option `status` too.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, Final

from grader_service.providers.stub.spoilt import SPOILERS
from grader_service.providers.stub.wires import PATHS, error_body

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grader_service.providers.stub.wires import Request

# What happens below HTTP, or to the bytes of an otherwise good response.
TRANSPORT: Final = frozenset(
    {"hang", "rst", "rst_mid", "short", "close", "drip", "drip_head", "huge", "gzip_bomb"}
)
# What a status and a whole body say.
HTTP: Final = frozenset({"redirect", "reject", "quota", "html_200", "html_502", "wrong_ctype"})
BODIES: Final[Mapping[str, bytes]] = {
    "bad_body": b'{"id": "stub", "choices": [',
    "bad_utf8": b'{"id": "\xff\xfe"}',
    "array_body": b"[]",
    "null_body": b"null",
    "no_choices": b'{"id": "stub", "object": "stub", "model": "stub"}',
    "dup_body": b'{"id": "stub", "choices": [], "choices": []}',
    "nan_body": b'{"id": "stub", "usage": NaN}',
    "deep_body": b'{"a": ' * 100_000 + b"1" + b"}" * 100_000,
    "error_200": b'{"error": {"code": 502, "message": "Stub: the upstream provider failed."}}',
    "error_200_quota": b'{"error": {"code": "insufficient_quota", "message": "Stub: spent."}}',
    "error_200_rejected": b'{"error": {"code": "invalid_image", "message": "Stub: no image."}}',
}
NAMES: Final = TRANSPORT | HTTP | frozenset(BODIES) | frozenset(SPOILERS)
_HTML: Final = b"<!doctype html><title>Stub</title><p>This is a page, not an answer."


class FaultError(ValueError):
    """Text that names no fault."""


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    argument: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    first: int | None = None
    text: str = ""

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Raises FaultError."""
        head, *options = text.strip().split(";")
        leading = re.fullmatch(r"first(\d+):(.+)", head)
        first, head = (int(leading[1]), leading[2]) if leading else (None, head)
        name, _, argument = head.partition(":")
        if name not in NAMES and not re.fullmatch(r"[3-5]\d\d", name):
            raise FaultError(f"there is no fault {name!r}; there are {', '.join(sorted(NAMES))}")
        if not all("=" in option for option in options):
            raise FaultError(f"an option of fault {text!r} has no value")
        pairs = dict(option.split("=", 1) for option in options)
        return cls(name, argument, pairs, first, text)


@dataclass(frozen=True, slots=True)
class Response:
    """What goes over HTTP: a status, headers and the whole body."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"

    @classmethod
    def of(cls, body: Any, status: int = 200) -> Response:
        return cls(status, json.dumps(body).encode())

    def with_headers(self, headers: Mapping[str, str]) -> Response:
        return replace(self, headers={**self.headers, **headers})


def http_fault(fault: Fault, request: Request, good: Response | None = None) -> Response | None:
    """Return the response that an HTTP or body fault makes, None where it leaves the answer be."""
    if fault.name.isdecimal():
        return _status(int(fault.name), fault, request)
    if fault.name in BODIES:
        return Response(200, BODIES[fault.name])
    match fault.name:
        case "reject":
            return _reject(fault, request)
        case "quota":
            anthropic = request.wire == "anthropic.messages"
            code = "enforced_spend_limit_reached" if anthropic else "insufficient_quota"
            return Response.of(error_body(request.wire, 429, "Stub: spent.", code=code), 429)
        case "redirect":
            path = next(path for path, wire in PATHS.items() if wire == request.wire)
            location = f"http://127.0.0.1:{fault.argument or 9}{path}"
            return Response(307, b"", {"location": location})
        case "html_200" | "html_502":
            return Response(int(fault.name[-3:]), _HTML, content_type="text/html")
        case "wrong_ctype" if good is not None:
            return Response(200, good.body, good.headers, content_type="text/plain")
        case _:
            return None


def _status(status: int, fault: Fault, request: Request) -> Response:
    headers: dict[str, str] = {}
    wait = fault.options.get("ra")
    if wait is not None:
        in_ = re.fullmatch(r"date([+-]\d+)", wait)
        headers["retry-after"] = formatdate(time.time() + int(in_[1]), usegmt=True) if in_ else wait
    if "ram" in fault.options:
        headers["retry-after-ms"] = fault.options["ram"]
    if "xsr" in fault.options:
        headers["x-should-retry"] = fault.options["xsr"]
    said = error_body(request.wire, status, "Stub fault.", code=fault.options.get("code"))
    return Response(status, json.dumps(said).encode(), headers)


def _reject(fault: Fault, request: Request) -> Response | None:
    name = next((name for name in fault.argument.split("+") if name in request.names), None)
    if name is None:
        return None
    status = int(fault.options.get("status", "400"))
    message = f"Unsupported parameter: '{name}' is not supported with this model."
    match fault.options.get("as", "param"):
        case "param":
            code = "unsupported_parameter"
            body = error_body(request.wire, status, message, code=code, param=name)
        case "message":
            body = error_body(request.wire, status, message)
        case _:
            problem = {"type": "extra_forbidden", "loc": ["body", name], "msg": "Not permitted"}
            body = {"detail": [problem]}
    return Response.of(body, status)


class RandomFaults:
    """Faults by chance: `FAULT:PROBABILITY` items separated by commas, and `max=N` (2 by default).

    Which call fails follows from the seed, the content key and how often that key was asked, so a
    run is repeatable in any order of calls. No key fails more than `max` times.
    """

    def __init__(self, spec: str, seed: int = 0) -> None:
        self._items: list[tuple[Fault, float]] = []
        self._max = 2
        self._seed = seed
        self._asked: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        for item in filter(None, (item.strip() for item in spec.split(","))):
            most = re.fullmatch(r"max=(\d+)", item)
            if most:
                self._max = int(most[1])
                continue
            text, _, chance = item.rpartition(":")
            try:
                self._items.append((Fault.parse(text), float(chance)))
            except ValueError as error:
                raise FaultError(f"{item!r} is no FAULT:PROBABILITY: {error}") from None

    def __bool__(self) -> bool:
        return bool(self._items)

    def reset(self) -> None:
        self._asked.clear()
        self._failed.clear()

    def pick(self, key: str) -> Fault | None:
        """Return the fault of the next call with this content key, if it has one."""
        lot = hashlib.sha256(f"{self._seed} {key} {self._asked[key]}".encode()).digest()
        self._asked[key] += 1
        chance = int.from_bytes(lot[:8], "big") / 2**64
        for fault, share in self._items:
            chance -= share
            if chance < 0 and self._failed[key] < self._max:
                self._failed[key] += 1
                return fault
        return None
