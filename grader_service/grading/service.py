"""What the API's use cases share."""

from __future__ import annotations

from dataclasses import dataclass

from grader_service.grading.judges import Judges
from grader_service.storage.blobs import BlobStore
from grader_service.storage.database import Database


@dataclass(frozen=True)
class Service:
    """The stores and judges behind the HTTP API. It knows no broker: submitting only commits."""

    database: Database
    blobs: BlobStore
    judges: Judges
    gradable_share: float = 0.8
    # For how long a worker may take nothing though it could before it counts as stuck.
    stuck_after_s: float = 30.0
    tenant: str = "default"
