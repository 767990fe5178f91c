"""A service in this process: its API, and a worker that grades when it is told to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from fastapi.testclient import TestClient

from grader_service.api.app import create_app
from grader_service.api.body import Limits
from grader_service.bootstrap import Worker, build_service, build_worker
from grader_service.grading.service import Service
from grader_service.settings import Settings
from grader_service.storage import publishing
from grader_service.storage.migrations import upgrade


class _NoBroker:
    """A queue that carries nothing: gradings are handed over by hand."""

    def publish(self, grading_ids: Sequence[str]) -> None:
        raise AssertionError(f"nobody carries {grading_ids} here")

    def depth(self) -> int:
        return 0

    def lost_data(self) -> bool:
        return False


@dataclass
class InProcess:
    """A service without processes of its own."""

    api: TestClient
    worker: Worker
    service: Service

    def submit(self, trial: Mapping[str, Any], parts: Mapping[str, bytes]) -> httpx2.Response:
        """Submit a trial as a client would; return the response."""
        files = {
            "trial": (None, json.dumps(trial).encode()),
            **{name: (name, data) for name, data in parts.items()},
        }
        response: httpx2.Response = self.api.post("/v1/trials", files=files)
        return response

    def grade(self) -> None:
        """Grade what is due, one after the other."""
        database = self.worker.grader.database
        with database.write() as unit:
            judges = [*self.service.judges.by_name, ""]
            due = publishing.publish_due(unit, judges=judges, limit=1000, stale_s=30)
        for grading_id in due:
            self.worker.grader.grade(grading_id)

    def trial(self, trial_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.api.get(f"/v1/trials/{trial_id}").json()
        return found

    def receipt(self, trial_id: str) -> dict[str, Any]:
        """Return the receipt of a trial's newest verdict."""
        verdicts: list[dict[str, Any]] = self.api.get(f"/v1/trials/{trial_id}/verdicts").json()
        newest: dict[str, Any] = verdicts[-1]["receipt"]
        return newest


@contextmanager
def in_process(
    home: Path, judge: Mapping[str, Any], limits: Limits, **others: Mapping[str, Any]
) -> Iterator[InProcess]:
    """Run a service on SQLite whose default judge is called `main`, and others by their names."""
    settings = Settings.load(home=home, judges={"main": judge, **others}, concurrency=2)
    service = build_service(settings)
    upgrade(service.database)
    worker = build_worker(
        settings, database=service.database, blobs=service.blobs, queue=_NoBroker()
    )
    try:
        with TestClient(create_app(service, limits), raise_server_exceptions=False) as api:
            yield InProcess(api, worker, service)
    finally:
        for judge_ in worker.grader.judges.values():
            judge_.provider.close()
        service.database.close()
