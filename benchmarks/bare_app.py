"""The least that could be done with a submission: read its parts, write and sync them as files.

Served by `uvicorn benchmarks.bare_app:app` as the yardstick of benchmarks/submissions.py. The
folder is that of the variable BARE_FOLDER.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse

from grader_service.api.body import Limits, read_parts

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

FOLDER = Path(os.environ["BARE_FOLDER"])


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] != "http":
        return
    parts = await read_parts(Request(scope, receive), Limits())
    await run_in_threadpool(store, parts)
    await JSONResponse({"id": "t"}, status_code=202)(scope, receive, send)


def store(parts: dict[str, bytes]) -> None:
    for data in parts.values():
        with (FOLDER / uuid4().hex).open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
