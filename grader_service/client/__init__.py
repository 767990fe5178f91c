"""What runs beside a harness: the HTTP client and the trials on disk."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grader_service.client.aio import AsyncClient
    from grader_service.client.http import DEFAULT_URL, Client
    from grader_service.client.types import (
        Grading,
        Judge,
        ListedRun,
        Progress,
        RunEnded,
        RunSummary,
        StoredRubric,
        SummaryChanged,
        Trial,
        TrialEnded,
        Verdict,
    )

__all__ = [
    "DEFAULT_URL",
    "AsyncClient",
    "Client",
    "Grading",
    "Judge",
    "ListedRun",
    "Progress",
    "RunEnded",
    "RunSummary",
    "StoredRubric",
    "SummaryChanged",
    "Trial",
    "TrialEnded",
    "Verdict",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for: `score` reads files and needs no HTTP."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = {"AsyncClient": "aio", "Client": "http", "DEFAULT_URL": "http"}.get(name, "types")
    return getattr(import_module(f"{__name__}.{module}"), name)
