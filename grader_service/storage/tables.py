"""The tables. Times are seconds since the epoch, by the database's clock."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeEngine

from grader_service.records.canonical import scrub_surrogates

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class CleanText(TypeDecorator[str]):
    """Text from outside. What no database or encoding takes (NUL, lone surrogates) is replaced."""

    impl = String
    cache_ok = True

    def __init__(self, length: int | None = None) -> None:
        super().__init__(length)
        self._length = length

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[str]:
        sized = Text() if self._length is None else String(self._length)
        return dialect.type_descriptor(sized)

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else scrub_surrogates(value).replace("\x00", "\ufffd")


_ID = String(36)
_DIGEST = String(64)
_NAME = CleanText(200)

rubrics = Table(
    "rubrics",
    metadata,
    Column("digest", _DIGEST, primary_key=True),
    Column("id", _NAME, nullable=False),
    Column("body", JSON, nullable=False),
)

trials = Table(
    "trials",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("tenant", _NAME, nullable=False),
    Column("run", _NAME, nullable=False),
    Column("client_id", _NAME),
    # What makes two submissions under one client id the same one.
    Column("content_digest", _DIGEST, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("scene_id", _NAME, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("instruction", CleanText()),
    Column("rubric_digest", _DIGEST, ForeignKey("rubrics.digest"), nullable=False),
    # The record as submitted: record.json of a robot trial, the trajectory of an A320 one.
    Column("record_digest", _DIGEST, nullable=False),
    Column("columns", JSON, nullable=False),
    Column("frames", JSON, nullable=False),
    Column("needs_review", Boolean, nullable=False, default=False),
    Column("created_at", Float, nullable=False),
    # The effective verdict, kept in step with `verdicts` by storage.verdicts.append.
    Column("outcome", String(16)),
    Column("verdict", String(16)),
    Column("reason", String(32)),
    Column("source", String(32)),
    Column("note", CleanText()),
    UniqueConstraint("tenant", "client_id"),
    Index(None, "tenant", "run", "id"),
    # The run summary counts over it.
    Index(None, "tenant", "run", "outcome", "verdict", "reason", "source"),
)

gradings = Table(
    "gradings",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("trial_id", _ID, ForeignKey("trials.id"), nullable=False),
    Column("tenant", _NAME, nullable=False),
    Column("run", _NAME, nullable=False),
    Column("round", Integer, nullable=False),
    Column("rubric_digest", _DIGEST, nullable=False),
    # Empty: the default judge of whichever worker claims it.
    Column("judge", _NAME, nullable=False),
    # Empty until a judge is known.
    Column("judge_digest", String(64), nullable=False),
    Column("state", String(16), nullable=False),
    Column("outcome", String(16)),
    Column("verdict", String(16)),
    Column("reason", String(32)),
    Column("failures", Integer, nullable=False, default=0),
    Column("lost_leases", Integer, nullable=False, default=0),
    Column("lease_token", _ID),
    Column("lease_until", Float, nullable=False, default=0.0),
    Column("owner", _NAME),
    Column("not_before", Float, nullable=False, default=0.0),
    Column("published_at", Float, nullable=False, default=0.0),
    Column("last_error", CleanText()),
    Column("created_at", Float, nullable=False),
    Column("done_at", Float),
    UniqueConstraint("trial_id", "rubric_digest", "judge_digest", "round"),
    # The pump walks it judge by judge and run by run, oldest due first.
    Index(None, "state", "judge", "tenant", "run", "not_before", "id"),
    # The reaper looks for expired leases.
    Index(None, "state", "lease_until"),
    Index(None, "tenant", "run", "state", "judge"),
)

verdicts = Table(
    "verdicts",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("trial_id", _ID, ForeignKey("trials.id"), nullable=False),
    # One verdict for each grading at most; human and adopted ones have none.
    Column("grading_id", _ID, ForeignKey("gradings.id"), unique=True),
    Column("source", String(32), nullable=False),
    Column("outcome", String(16), nullable=False),
    Column("verdict", String(16)),
    Column("reason", String(32)),
    Column("note", CleanText()),
    Column("by", _NAME),
    Column("primary", Boolean, nullable=False),
    Column("at", Float, nullable=False),
    Column("receipt", JSON),
    Index(None, "trial_id", "at", "id"),
)

workers = Table(
    "workers",
    metadata,
    Column("node", _NAME, primary_key=True),
    Column("boot_id", _ID, nullable=False),
    Column("judges", JSON, nullable=False),
    Column("in_flight", Integer, nullable=False),
    Column("last_tick", Float, nullable=False),
)
