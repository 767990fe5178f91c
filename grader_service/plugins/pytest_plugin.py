"""For the tests of a harness: the fixture `autograder_service`, a service that does as it is told.

Loaded by pytest in every project of an environment, so nothing but the standard library and pytest
is imported before a test asks for the fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from grader_service.plugins.stub_service import StubService


@pytest.fixture
def autograder_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StubService]:
    """A running stub service with scripted verdicts, outages and delays.

    AUTOGRADER_URL names it, and AUTOGRADER_SPOOL a folder of this test, so that a grader configured
    by environment alone finds it and leaves nothing in the home folder.
    """
    from grader_service.plugins.stub_service import StubService

    with StubService() as service:
        monkeypatch.setenv("AUTOGRADER_URL", service.url)
        monkeypatch.setenv("AUTOGRADER_SPOOL", str(tmp_path / "autograder-spool"))
        yield service
