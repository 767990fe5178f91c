"""Ids: UUIDv7, so that they sort by the time at which they were made."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from uuid import uuid7
else:
    from uuid_utils.compat import uuid7


def new_id() -> str:
    """Return a new UUIDv7 as text."""
    return str(uuid7())
