"""The application: routers, limits and problem documents around one Service."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi_offline import FastAPIOffline

from grader_service import __version__
from grader_service.api import catalog, health, problems, queue, runs, trials, verdicts
from grader_service.api.body import Limits
from grader_service.api.events import Looks
from grader_service.client.forms import A320TrialIn, RobotTrialIn
from grader_service.grading.service import Service


def create_app(service: Service, limits: Limits) -> FastAPI:
    """Return the ASGI application."""
    # /docs with its scripts from here: a lab's network may reach nothing else.
    app = FastAPIOffline(
        redoc_url=None,
        title="robot-autograder",
        version=__version__,
        summary="Takes robot trials, has them judged, gives reproducible ScoreCards.",
    )
    app.state.service = service
    app.state.limits = limits
    app.state.looks = Looks(service)
    for room in (trials, verdicts, runs, catalog, queue, health):
        app.include_router(room.router)
    problems.install(app)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    """Return the schema with the parts of a submission, which no route declares as parameters."""
    if app.openapi_schema is None:
        schema = FastAPI.openapi(app)
        for model in (RobotTrialIn, A320TrialIn):
            described = model.model_json_schema(ref_template="#/components/schemas/{model}")
            parts = described.pop("$defs", {})
            schema["components"]["schemas"].update(parts | {model.__name__: described})
    return app.openapi_schema or {}
