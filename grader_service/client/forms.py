"""The JSON that the trial routes take: one description for the service and for its stub."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeVar
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)

from grader_service.errors import ConflictError, InputError

Form = TypeVar("Form", bound=BaseModel)

# Printable, no control characters: names end up in logs, paths of exports and pages.
Name = Annotated[
    str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")
]


def _no_route(run: str) -> str:
    if run.endswith(_ROUTES):
        raise ValueError(f"ends as a route of runs does ({', '.join(_ROUTES)})")
    return run


# A run's name may have slashes, so what follows it in a path must not look like a part of it.
_ROUTES: Final = ("/events", "/scorecards", "/aggregate")
Run = Annotated[Name, AfterValidator(_no_route)]

# Higher first among the trials that wait for a judge.
Priority = Annotated[int, Field(strict=True, ge=-10, le=10)]


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid")


class FrameIn(_Form):
    """One uploaded frame: which camera and phase, and the part that holds its bytes."""

    camera: Name
    phase: Literal["first", "last", "parked"]
    part: Name


class SceneIn(_Form):
    """The initial condition. `metadata.rubric`, if any, beats the submission's rubric."""

    id: Name
    instruction: str = Field(min_length=1, max_length=20_000)
    metadata: dict[str, Any] = {}


class RobotTrialIn(_Form):
    """The part `trial` of a robot submission."""

    kind: Literal["robot"]
    run: Run
    scene: SceneIn
    epoch: int = Field(default=0, ge=0, le=1_000_000)
    client_id: Name | None = None
    rubric: str | dict[str, Any] | None = None
    judge: Name | None = None
    priority: Priority = 0
    fresh: bool = False
    record: Name | None = None
    frames: list[FrameIn] = Field(default=[], max_length=64)


class A320TrialIn(_Form):
    """The part `trial` of an A320 submission; the part `trajectory` holds the JSONL."""

    kind: Literal["a320"]
    run: Run
    client_id: Name | None = None
    rubric: str | dict[str, Any] | None = None
    judge: Name | None = None
    priority: Priority = 0
    fresh: bool = False


class TrialQuery(_Form):
    """Filters and position of a listing."""

    run: str | None = None
    state: Literal["queued", "running", "done", "cancelled"] | None = None
    outcome: Literal["graded", "abstained", "ungraded"] | None = None
    needs_review: bool | None = None
    client_id: str | None = None
    cursor: UUID | None = None
    limit: int = Field(default=100, ge=1, le=1000)


def validated(form: type[Form], value: Any, *, what: str) -> Form:
    """Return a value in its form. Raises InputError that names where `what` is of another."""
    try:
        return form.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join([what, *map(str, first["loc"])])
        raise InputError(f"{where}: {first['msg']}", fix="see /docs for the form") from error


def one_client_id(own: str | None, header: str | None) -> str | None:
    """Return the client id of the form or of Idempotency-Key. Raises ConflictError for two."""
    if own is not None and header is not None and own != header:
        raise ConflictError(
            "client_id and Idempotency-Key differ", fix="send one of them, or the same twice"
        )
    return own if own is not None else header


def part_named(parts: Mapping[str, bytes], name: str, what: str) -> bytes:
    """Return a part of a submission. Raises InputError when it is missing."""
    if name not in parts:
        raise InputError(
            f"the part {name!r} ({what}) is missing", fix=f"send it as a part named {name!r}"
        )
    return parts[name]


def only_parts(parts: Mapping[str, bytes], known: set[str]) -> None:
    """Raise InputError for a part that nothing names."""
    unknown = sorted(set(parts) - known)
    if unknown:
        raise InputError(
            f"nothing in 'trial' names the part {unknown[0]!r}",
            fix="name it as the record or in frames, or leave it out",
        )
