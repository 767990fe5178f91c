"""Liveness and readiness: what keeps trials from being taken, and what from being graded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import event

from grader_service.api.app import create_app
from grader_service.grading.service import Service
from grader_service.storage import workers
from grader_service.storage.database import Database
from tests.api.conftest import LIMITS


def boot(database: Database, *, trouble: str | None = None, idle: bool = False) -> None:
    with database.write() as unit:
        workers.boot(unit, node="w1", boot_id="b1", judges=["main"])
        if idle:
            unit.connection.exec_driver_sql("UPDATE workers SET last_progress = 0")
        workers.tick(unit, node="w1", boot_id="b1", in_flight=0, progress=not idle, trouble=trouble)


def test_with_a_worker_that_makes_progress_the_service_is_ready(
    api: TestClient, database: Database
) -> None:
    boot(database)
    response = api.get("/readyz")
    assert response.status_code == 200
    assert response.json() == {
        "ready": True,
        "status": "ready",
        "causes": [],
        "workers": 1,
        "stuck": [],
    }


def test_without_a_worker_trials_are_taken_and_wait(api: TestClient) -> None:
    response = api.get("/readyz")
    assert response.status_code == 200
    assert response.json()["status"] == "degraded"
    assert "no worker is running" in response.json()["causes"][0]


def test_a_broker_that_is_down_degrades_and_refuses_nothing(
    api: TestClient, database: Database
) -> None:
    boot(database, trouble="the broker did not answer: connection refused")
    response = api.get("/readyz")
    assert response.status_code == 200
    assert response.json()["status"] == "degraded"
    assert "the broker did not answer" in response.json()["causes"][0]


def test_a_worker_that_takes_nothing_though_it_could_is_named(
    api: TestClient, database: Database
) -> None:
    boot(database, idle=True)
    state = api.get("/readyz").json()
    assert state["stuck"] == ["w1"]
    assert state["causes"] == ["worker w1 takes no trials"]


def test_a_worker_of_yesterday_is_not_spoken_of(api: TestClient, database: Database) -> None:
    boot(database)
    with database.write() as unit:
        unit.connection.exec_driver_sql("UPDATE workers SET last_tick = 0, last_progress = 0")
    state = api.get("/readyz").json()
    assert (state["workers"], state["stuck"]) == (0, [])


def test_a_database_that_can_be_read_but_not_written_is_not_ready(
    service: Service, database: Database
) -> None:
    read_only = Database(database.url)

    @event.listens_for(read_only.engine, "connect")
    def _refuse_writes(connection: Any, _record: object) -> None:
        connection.execute("PRAGMA query_only=ON")

    with TestClient(create_app(replace(service, database=read_only), LIMITS)) as api:
        assert api.get("/v1/runs").status_code == 200
        response = api.get("/readyz")
    read_only.close()
    assert response.status_code == 503
    assert response.json()["status"] == "unavailable"


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_need_no_body_and_no_key(api: TestClient, path: str) -> None:
    assert api.get(path).headers["content-type"] == "application/json"
