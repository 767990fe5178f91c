"""The entry point, and the harness' own tests with it installed."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from importlib.metadata import entry_points
from pathlib import Path

import pytest

PYTHON = [sys.executable, "-W", "error"]


def test_loading_the_entry_point_imports_the_standard_library_only() -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        "from importlib.metadata import entry_points\n"
        "[point] = entry_points(group='inspect_robots.graders', name='autograder')\n"
        "assert callable(point.load())\n"
        "tops = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(tops - sys.stdlib_module_names))"
    )
    done = subprocess.run([*PYTHON, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['grader_service']"


def test_the_harness_finds_the_grader_by_its_name() -> None:
    [point] = entry_points(group="inspect_robots.graders", name="autograder")
    assert point.value == "grader_service.plugins.inspect_robots:autograder"
    done = subprocess.run(
        [str(Path(sys.executable).parent / "inspect-robots"), "list"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "autograder" in done.stdout
    assert "failed to load" not in done.stderr


@pytest.fixture(scope="module")
def sdist(pytestconfig: pytest.Config) -> Path:
    """The sources of the harness, kept between runs: its wheel has no tests."""
    cache = pytestconfig.cache
    assert cache is not None
    folder = cache.mkdir("inspect-robots-0.60.0")
    archive = folder / "inspect_robots-0.60.0.tar.gz"
    if not archive.exists():
        fetched = subprocess.run(
            [
                sys.executable, "-m", "pip", "download", "-q", "--no-deps",
                "--no-binary", "inspect-robots", "-d", str(folder), "inspect-robots==0.60.0",
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )  # fmt: skip
        if not archive.exists():
            pytest.skip(f"no index gives the sources of the harness: {fetched.stderr[-300:]}")
    return archive


def test_the_harness_own_tests_pass_with_the_plug_in_installed(sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        # The argument `filter` is younger than some 3.11.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path)  # noqa: S202  (pinned, and filtered where that can be)
    [source] = tmp_path.iterdir()
    chosen = [
        path
        for pattern in ("test_*grader*.py", "test_scorers.py", "test_eval_log.py", "test_*json*.py")
        for path in sorted((source / "tests").glob(pattern))
    ]
    assert {"test_grader.py", "test_vlm_grader.py", "test_scorers.py", "test_eval_log.py"} <= {
        path.name for path in chosen
    }
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider",
            "-o", "addopts=", *map(str, chosen),
        ],
        cwd=source,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    assert int(done.stdout.rpartition(" passed")[0].split()[-1]) > 80


def test_a_rig_needs_no_package_of_the_server() -> None:
    server = "fastapi sqlalchemy alembic celery redis obstore openai anthropic pydantic_settings"
    code = (
        "import sys\n"
        f"for name in {server.split()!r}: sys.modules[name] = None\n"
        "import grader_service.cli.flush\n"
        "import grader_service.plugins.harness.sink\n"
        "from grader_service.plugins.inspect_robots import autograder\n"
        "print(autograder(url='http://127.0.0.1:9').name)"
    )
    done = subprocess.run([*PYTHON, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "autograder\n"
