"""The API in this process, on a real database and blob store."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient

from grader_service.api.app import create_app
from grader_service.api.body import Limits
from grader_service.grading.judges import Judges
from grader_service.grading.service import Service
from grader_service.judging.judge import JudgeConfig
from grader_service.providers.base import ProviderConfig
from grader_service.storage.blobs import BlobStore
from grader_service.storage.database import Database
from grader_service.storage.migrations import upgrade

LIMITS = Limits(body_bytes=2_000_000, part_bytes=500_000, parts=12, seconds=10)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'api.db'}")
    upgrade(database)
    yield database
    database.close()


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path / "blobs"))


@pytest.fixture
def judge() -> JudgeConfig:
    config = ProviderConfig(kind="openai", model="m", base_url="http://127.0.0.1:9/v1", api_key="k")
    return JudgeConfig(name="main", provider=config)


@pytest.fixture
def service(database: Database, blobs: BlobStore, judge: JudgeConfig) -> Service:
    return Service(database, blobs, Judges({judge.name: judge}, judge.name))


@pytest.fixture
def api(service: Service) -> Iterator[TestClient]:
    with TestClient(create_app(service, LIMITS), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def frame(sample_trials: Path) -> bytes:
    """A camera frame."""
    return (sample_trials / "pad-01" / "final_front.jpg").read_bytes()


def robot(**changes: Any) -> dict[str, Any]:
    """The part `trial` of a valid robot submission with one last frame in the part f0."""
    return {
        "kind": "robot",
        "run": "r1",
        "client_id": "rig7-0042",
        "scene": {"id": "pad-01", "instruction": "Place the red cube on the green square."},
        "epoch": 0,
        "frames": [{"camera": "front", "phase": "last", "part": "f0"}],
    } | changes


def post(
    api: TestClient, trial: Any, parts: Mapping[str, bytes], **headers: str
) -> httpx2.Response:
    """Submit a trial; `trial` may be bytes that are no JSON."""
    text = trial if isinstance(trial, bytes) else json.dumps(trial).encode()
    files = {"trial": (None, text), **{name: (name, data) for name, data in parts.items()}}
    response: httpx2.Response = api.post("/v1/trials", files=files, headers=headers)
    return response
