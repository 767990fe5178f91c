"""The database's address, and what is said of a wrong one."""

from __future__ import annotations

import traceback

import pytest

from grader_service.errors import SetupError
from grader_service.storage.database import Database


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg:/ann:s3cret@host/db",
        "ann:s3cret@host/db",
        "postgresql+psycopg://ann:s3cret@host:54x2/db",
        "mysql://ann:s3cret@host/db",
    ],
)
def test_a_wrong_address_is_told_without_the_password_in_it(url: str) -> None:
    with pytest.raises(SetupError) as told:
        Database(url)
    assert told.value.fix
    assert "s3cret" not in "".join(traceback.format_exception(told.value))
