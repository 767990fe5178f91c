"""The grader's options: `-G name=value` beats AUTOGRADER_<NAME>, which beats the default."""

from __future__ import annotations

import difflib
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import uuid4

from inspect_robots.errors import ConfigError

from grader_service.client.http import DEFAULT_URL
from grader_service.client.spool import default_folder

_MAX_NAME: Final = 200
_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class Options:
    """What the grader does. `timeout` and `flush` are seconds; `abstain` is `pending=abstain`."""

    url: str
    run: str
    rubric: str | None
    judge: str | None
    wait: bool
    timeout: float
    abstain: bool
    spool: Path
    flush: float


def read_options(given: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> Options:
    """Return the options that the harness and the environment give.

    Values are as the harness reads them: text, numbers, booleans or None. Raises ConfigError.
    """
    for name in given:
        if name not in _READERS:
            near = difflib.get_close_matches(name, _READERS, n=1)
            raise _wrong(
                f"the autograder grader has no option {name!r}",
                f"use -G {near[0]}=..." if near else f"its options are {', '.join(_READERS)}",
            )
    values: dict[str, Any] = {}
    for name, read in _READERS.items():
        variable = f"AUTOGRADER_{name.upper()}"
        if given.get(name) not in (None, ""):
            values[name] = read(f"-G {name}", given[name])
        elif environ.get(variable):
            values[name] = read(variable, environ[variable])
    return Options(
        url=values.get("url", DEFAULT_URL),
        run=values.get("run") or time.strftime("%Y%m%d-%H%M%S-") + uuid4().hex[:6],
        rubric=values.get("rubric"),
        judge=values.get("judge"),
        wait=values.get("wait", False),
        timeout=values.get("timeout", 120.0),
        abstain=values.get("pending", "zero") == "abstain",
        spool=values.get("spool") or default_folder(environ),
        flush=values.get("flush", 10.0),
    )


def _wrong(what: str, fix: str) -> ConfigError:
    return ConfigError(f"{what}.\nfix: {fix}")


def _text(where: str, value: Any) -> str:
    # The harness reads 007 as the number 7 and yes/no as they are; what it read as a float or a
    # boolean can't be turned back into what was typed.
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _wrong(f"{where} is {value!r}, not a text", f"quote it: {where}=\"'...'\"")
    return str(value).strip()


def _name(where: str, value: Any) -> str:
    text = _text(where, value)
    if not 0 < len(text) <= _MAX_NAME or not text.isprintable():
        raise _wrong(
            f"{where} is no name: {text[:80]!r}", f"use 1 to {_MAX_NAME} printable characters"
        )
    return text


def _url(where: str, value: Any) -> str:
    text = _text(where, value).rstrip("/")
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment:
        raise _wrong(f"{where} is no address of a service: {text!r}", f"use {where}={DEFAULT_URL}")
    if parts.username is not None or parts.password is not None:
        raise _wrong(f"{where} carries a password, which logs would show", "leave it out")
    return text


def _flag(where: str, value: Any) -> bool:
    text = str(value).strip().lower()
    if text not in _TRUE | _FALSE:
        raise _wrong(f"{where} is {value!r}, neither true nor false", f"use {where}=true or false")
    return text in _TRUE


def _seconds(where: str, value: Any) -> float:
    try:
        seconds = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    if not math.isfinite(seconds) or seconds < 0:
        raise _wrong(f"{where} is {value!r}, no number of seconds", f"use {where}=30")
    return seconds


def _pending(where: str, value: Any) -> str:
    if value not in ("zero", "abstain"):
        raise _wrong(
            f"{where} is {value!r}, neither 'zero' nor 'abstain'",
            f"use {where}=abstain, or leave it out",
        )
    return str(value)


def _folder(where: str, value: Any) -> Path:
    return Path(_text(where, value)).expanduser().absolute()


_READERS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "url": _url,
    "run": _name,
    "rubric": _text,
    "judge": _name,
    "wait": _flag,
    "timeout": _seconds,
    "pending": _pending,
    "spool": _folder,
    "flush": _seconds,
}
