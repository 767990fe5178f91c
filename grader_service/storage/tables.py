"""The tables. Times are seconds since the epoch, by the database's clock."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
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

from grader_service.records.canonical import scrub_surrogates

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class CleanString(TypeDecorator[str]):
    """Text from outside. What no database or encoding takes (NUL, lone surrogates) is replaced."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else scrub_surrogates(value).replace("\x00", "\ufffd")


class CleanText(CleanString):
    """The same, of any length."""

    impl = Text
    cache_ok = True


_ID = String(36)
_DIGEST = String(64)
_NAME = CleanString(200)
MAX_FAILURE_MODE = 100

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
    Column("instruction_from", String(16), nullable=False),
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
    # What the judge thinks went wrong, where the effective verdict is a failure.
    Column("failure_mode", CleanString(MAX_FAILURE_MODE)),
    UniqueConstraint("tenant", "client_id"),
    Index(None, "tenant", "run", "id"),
    # The run summary counts over it.
    Index(None, "tenant", "run", "outcome", "verdict", "reason", "source", "failure_mode"),
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
    # Ask even where the judge has answered the same question before.
    Column("fresh", Boolean, nullable=False, default=False),
    # Higher first among the rows of a judge.
    Column("priority", Integer, nullable=False, default=0),
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
    Column("last_error_at", Float),
    Column("created_at", Float, nullable=False),
    # When it was done or cancelled.
    Column("done_at", Float),
    UniqueConstraint("trial_id", "rubric_digest", "judge_digest", "round"),
    # The pump walks it: judge, priority, run, oldest due first.
    Index(None, "state", "judge", "priority", "tenant", "run", "not_before", "id"),
    # The reaper looks for expired leases.
    Index(None, "state", "lease_until"),
    Index(None, "tenant", "run", "state", "judge"),
    # Those who follow a run ask what ended lately.
    Index(None, "tenant", "run", "done_at", "id"),
    # Dead trials are few among many.
    Index(None, "reason", "judge"),
)

verdicts = Table(
    "verdicts",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("trial_id", _ID, ForeignKey("trials.id"), nullable=False),
    Column("tenant", _NAME, nullable=False),
    Column("run", _NAME, nullable=False),
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
    # What its receipt says was spent. The number of answers; of the others None if not known.
    Column("answers", Integer, nullable=False),
    Column("input_tokens", BigInteger),
    Column("output_tokens", BigInteger),
    # Whole numbers, so that sums are exact on every database.
    Column("nano_usd", BigInteger),
    Column("receipt", JSON),
    # Which question its receipt's own reply answers (grading.reuse); None where it may not be
    # taken over.
    Column("question", String(64), index=True),
    Index(None, "trial_id", "at", "id"),
    # The run summary adds up over it. Named, since the convention's name is too long.
    Index(
        "ix_verdicts_spent",
        "tenant",
        "run",
        "answers",
        "input_tokens",
        "output_tokens",
        "nano_usd",
    ),
)

workers = Table(
    "workers",
    metadata,
    Column("node", _NAME, primary_key=True),
    Column("boot_id", _ID, nullable=False),
    Column("judges", JSON, nullable=False),
    Column("in_flight", Integer, nullable=False),
    Column("last_tick", Float, nullable=False),
    # When it last took a trial, or had none to take or no room for one.
    Column("last_progress", Float, nullable=False),
    # What keeps it from working, if anything.
    Column("trouble", CleanText()),
    # What keeps its judges from being asked, by judge.
    Column("paused", JSON),
)

# One row, there from the start, that readiness writes to see that writing is possible.
probe = Table(
    "probe",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", Float, nullable=False),
)
