"""The queue port: what carries the ids of due gradings to a worker. It may lose everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Queue(Protocol):
    """A broker. Every method raises UnavailableError when it can't be reached."""

    def publish(self, grading_ids: Sequence[str]) -> None:
        """Send one message for each id."""
        ...

    def depth(self) -> int:
        """Return how many messages wait in the broker."""
        ...

    def lost_data(self) -> bool:
        """Return True once after the broker came up empty."""
        ...
