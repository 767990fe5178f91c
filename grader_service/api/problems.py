"""Errors over HTTP: application/problem+json (RFC 9457), derived from the error's class."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from grader_service.errors import AutograderError, UnavailableError

_log = logging.getLogger(__name__)
_TYPE = "https://robot-autograder.invalid/problems/"

PROBLEM: dict[str, Any] = {
    "description": "What is wrong and what to do about it.",
    "content": {
        "application/problem+json": {
            "schema": {
                "type": "object",
                "required": ["type", "title", "status", "detail"],
                "properties": {
                    "type": {"type": "string", "format": "uri"},
                    "title": {"type": "string"},
                    "status": {"type": "integer"},
                    "detail": {"type": "string"},
                    "fix": {"type": "string"},
                },
            }
        }
    },
}


def problem(
    status: int,
    slug: str,
    detail: str,
    *,
    fix: str | None = None,
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    """Return a problem document."""
    body: dict[str, Any] = {
        "type": _TYPE + slug,
        "title": slug.replace("-", " "),
        "status": status,
        "detail": detail,
    }
    if fix is not None:
        body["fix"] = fix
    return JSONResponse(
        body, status_code=status, media_type="application/problem+json", headers=headers
    )


def install(app: FastAPI) -> None:
    """Make every error of the application a problem document."""

    @app.exception_handler(AutograderError)
    async def _ours(_request: Request, error: AutograderError) -> JSONResponse:
        headers = None
        if isinstance(error, UnavailableError):
            headers = {"Retry-After": str(max(1, round(error.retry_after)))}
        return problem(error.status, error.slug, error.message, fix=error.fix, headers=headers)

    @app.exception_handler(RequestValidationError)
    async def _invalid(_request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return problem(
            422, "invalid-input", f"{where}: {first['msg']}", fix="see /docs for the form"
        )

    @app.exception_handler(HTTPException)
    async def _http(_request: Request, error: HTTPException) -> JSONResponse:
        slug = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "http")
        return problem(
            error.status_code,
            slug,
            str(error.detail),
            fix="see /docs for the routes",
            headers=dict(error.headers) if error.headers else None,
        )

    @app.exception_handler(Exception)
    async def _bug(request: Request, error: Exception) -> JSONResponse:
        _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return problem(500, "internal", "an error of ours; the log of the service has it")
