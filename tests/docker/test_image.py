"""The image and the compose file: what can be known of them without Docker."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx2
import pytest
import yaml

from grader_service.cli.processes import free_port, wait_for_port
from grader_service.settings import Settings
from grader_service.storage import workers
from grader_service.storage.database import Database
from grader_service.storage.migrations import upgrade
from tests.support.stack import AUTOGRADER, Stack

ROOT = Path(__file__).parent.parent.parent
DOCKER = ROOT / "docker"
OURS = ("api", "worker", "migrate")
SECRETS = {
    "POSTGRES_PASSWORD": "p0stgres",
    "AUTOGRADER_SECRET": "s3cret",
    "S3_ACCESS_KEY": "access",
    "S3_SECRET_KEY": "key",
}


def load(path: Path) -> ModuleType:
    """Import a script that is in no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def dockerfile() -> list[tuple[str, str]]:
    """The Dockerfile's instructions with their arguments."""
    steps = load(DOCKER / "build_steps.py")
    return list(steps.instructions((DOCKER / "Dockerfile").read_text()))


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """The compose file with the secrets filled in."""
    text = (DOCKER / "compose.yaml").read_text()
    filled = re.sub(r"\$\{(\w+):\?\}", lambda match: SECRETS[match[1]], text)
    assert "$" not in filled
    found: dict[str, Any] = yaml.safe_load(filled)
    return found


def test_the_dockerfiles_own_steps_give_a_service_that_grades_trials(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(DOCKER / "build_steps.py"), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if "Failed to fetch: " in done.stderr:
        pytest.skip("no package index can be reached")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].endswith("24 of 24 trials graded")


def test_the_container_is_not_root_and_kubernetes_can_tell(
    dockerfile: list[tuple[str, str]],
) -> None:
    users = [text for name, text in dockerfile if name == "USER"]
    assert users == ["10001:10001"]


def test_the_last_stage_is_slim_and_holds_nothing_that_builds(
    dockerfile: list[tuple[str, str]],
) -> None:
    arguments = dict(text.split("=", 1) for name, text in dockerfile if name == "ARG")
    assert arguments["PYTHON"].endswith("-slim")
    last = max(number for number, (name, _) in enumerate(dockerfile) if name == "FROM")
    assert dockerfile[last][1] == "${PYTHON}"
    copied = [text for name, text in dockerfile[last:] if name == "COPY"]
    assert copied == ["--from=build ${PREFIX} ${PREFIX}"]
    assert "RUN" not in {name for name, _ in dockerfile[last:]}


def test_every_foreign_image_has_a_tag_of_its_own(
    dockerfile: list[tuple[str, str]], compose: dict[str, Any]
) -> None:
    arguments = dict(text.split("=", 1) for name, text in dockerfile if name == "ARG")
    images = [service["image"] for service in compose["services"].values()]
    images += [arguments["PYTHON"]]
    images += re.findall(r"--from=(\S*/\S*)", (DOCKER / "Dockerfile").read_text())
    assert len(images) == 8
    for image in images:
        _, colon, tag = image.rpartition("/")[2].partition(":")
        assert colon, image
        assert tag not in ("", "latest"), image


def test_the_image_builds_with_the_uv_that_is_locked(dockerfile: list[tuple[str, str]]) -> None:
    [used] = [re.search(r"/uv:(\S+)", text) for name, text in dockerfile if "/uv:" in text]
    locked = re.search(r"^uv==(\S+)", (ROOT / "requirements" / "dev.txt").read_text(), re.MULTILINE)
    assert used is not None
    assert locked is not None
    assert used[1] == locked[1]


def test_what_the_image_installs_is_what_the_tests_ran_with() -> None:
    pins = {
        name: dict(re.findall(r"^([\w.-]+)==(\S+)", path.read_text(), re.MULTILINE))
        for name in ("server", "dev")
        if (path := ROOT / "requirements" / f"{name}.txt")
    }
    assert pins["server"].items() <= pins["dev"].items()
    assert {"psycopg-binary", "celery", "obstore"} <= pins["server"].keys()
    assert not {"pytest", "hatchling", "mypy"} & pins["server"].keys()


def test_what_the_dockerfile_copies_reaches_docker(dockerfile: list[tuple[str, str]]) -> None:
    ignore = (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
    allowed = {line[1:] for line in ignore if line.startswith("!")}
    sources: set[str] = set()
    for name, text in dockerfile:
        if name == "COPY" and "--from=" not in text:
            words = [word for word in text.split() if not word.startswith("--")]
            sources |= set(words[:-1])
    assert sources
    assert "*" in ignore
    for source in sources:
        assert (ROOT / source).exists(), source
        assert source in allowed or source.partition("/")[0] in allowed, source


# --- compose ------------------------------------------------------------------------------------


def test_every_setting_of_the_compose_file_is_one(compose: dict[str, Any]) -> None:
    known = {f"AUTOGRADER_{name.upper()}" for name in Settings.model_fields}
    for name in OURS:
        settings = {
            variable
            for variable in compose["services"][name]["environment"]
            if variable.startswith("AUTOGRADER_")
        }
        assert settings
        assert settings <= known


@pytest.mark.parametrize("name", OURS)
def test_each_of_our_containers_gets_the_settings_of_one_service(
    compose: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in compose["services"][name]["environment"].items():
        if value is not None:
            monkeypatch.setenv(variable, value)
    settings = Settings.load()
    assert settings.database == "postgresql+psycopg://autograder:p0stgres@postgres/autograder"
    assert settings.broker_url == "redis://broker:6379/0"
    assert settings.blobs == "s3://autograder/blobs"
    assert settings.secret_bytes() == b"s3cret"
    assert compose["services"][name]["command"] == [{"api": "serve"}.get(name, name)]


@pytest.mark.parametrize("name", OURS)
def test_our_containers_can_write_nothing_but_tmp_and_have_no_privileges(
    compose: dict[str, Any], name: str
) -> None:
    service = compose["services"][name]
    assert service["read_only"]
    assert service["tmpfs"] == ["/tmp"]  # noqa: S108  (the container's own)
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_the_only_way_in_is_the_apis_port_on_this_machines_loopback(
    compose: dict[str, Any],
) -> None:
    ports = {name: service.get("ports", []) for name, service in compose["services"].items()}
    assert ports.pop("api") == ["127.0.0.1:8400:8400"]
    assert not any(ports.values())
    trusting = [
        name
        for name, service in compose["services"].items()
        if "AUTOGRADER_TRUSTED_NETWORK" in service.get("environment", {})
    ]
    assert trusting == ["api"]
    assert compose["networks"]["data"] == {"internal": True}
    for name in ("postgres", "broker", "s3"):
        assert compose["services"][name]["networks"] == ["data"]


def test_two_workers_wait_for_the_migration_and_get_the_time_to_end_their_calls(
    compose: dict[str, Any],
) -> None:
    worker = compose["services"]["worker"]
    assert worker["deploy"]["replicas"] == 2
    assert worker["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
    assert int(worker["stop_grace_period"].removesuffix("s")) > 120


def test_the_example_of_the_secrets_names_exactly_those_that_are_needed() -> None:
    example = (DOCKER / "example.env").read_text()
    needed = set(re.findall(r"\$\{(\w+):\?\}", (DOCKER / "compose.yaml").read_text()))
    assert set(re.findall(r"^(\w+)=$", example, re.MULTILINE)) == needed == SECRETS.keys()


# --- listening for other containers ---------------------------------------------------------------


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    stack = Stack(tmp_path / "home", "redis://127.0.0.1:9/0")
    stack.migrate()
    yield stack
    stack.close()


def test_the_api_listens_for_other_machines_only_where_it_is_told_that_it_may(
    stack: Stack,
) -> None:
    port = free_port()
    serve = [*AUTOGRADER, "serve", "--host", "0.0.0.0", "--port", str(port)]
    refused = subprocess.run(
        serve, env=stack.environment, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2
    assert "docs/scale-out.md" in refused.stderr
    trusted = subprocess.Popen(
        serve, env=stack.environment | {"AUTOGRADER_TRUSTED_NETWORK": "true"}
    )
    try:
        assert wait_for_port(port)
        answer = httpx2.get(f"http://127.0.0.1:{port}/healthz", trust_env=False)
        assert answer.json() == {"status": "ok"}
    finally:
        trusted.terminate()
        trusted.wait()


# --- health -------------------------------------------------------------------------------------


def healthcheck(what: str, settings: Mapping[str, str]) -> int:
    return subprocess.run(
        [sys.executable, str(DOCKER / "healthcheck.py"), what],
        env={**os.environ, "PYTHONPATH": str(ROOT), **settings},
        check=False,
    ).returncode


def test_a_container_is_unhealthy_when_its_api_does_not_answer(stack: Stack) -> None:
    assert healthcheck("api", {"AUTOGRADER_PORT": str(free_port())}) == 1
    stack.start_api()
    assert healthcheck("api", {"AUTOGRADER_PORT": str(stack.port)}) == 0


def test_a_container_is_unhealthy_when_its_worker_does_not_tick_or_takes_nothing(
    tmp_path: Path,
) -> None:
    database = Database(f"sqlite:///{tmp_path / 'autograder.db'}")
    upgrade(database)
    settings = {"AUTOGRADER_HOME": str(tmp_path), "AUTOGRADER_NODE": "mine"}
    assert healthcheck("worker", settings) == 1
    with database.write() as unit:
        workers.boot(unit, node="mine", boot_id="b", judges=[])
    assert healthcheck("worker", settings) == 0
    assert healthcheck("worker", settings | {"AUTOGRADER_NODE": "other"}) == 1
    # It ticks, and has taken nothing for longer than the setting allows.
    assert healthcheck("worker", settings | {"AUTOGRADER_STUCK_AFTER_S": "0.001"}) == 1
    database.close()


def test_a_worker_is_not_to_blame_for_a_database_that_is_away() -> None:
    gone = {"AUTOGRADER_DATABASE_URL": "postgresql+psycopg://x@127.0.0.1:9/x"}
    assert healthcheck("worker", gone) == 0
