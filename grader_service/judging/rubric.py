"""Rubrics: what success means, as a list of statements that can be checked one by one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from grader_service.errors import InputError, RubricError, SetupError
from grader_service.judging.located_yaml import Located, LocatedError, read_yaml
from grader_service.records.canonical import digest, digest_of, scrub_surrogates

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from pydantic_core import ErrorDetails

Kind = Literal["frames", "bundle"]

DEFAULT_FRAMES: Final = "robot/task-done"
DEFAULT_BUNDLE: Final = "a320/procedure-reasoning"

# Far above any rubric that a person would grade by; a prompt has to hold all of it.
_MAX_CHARS: Final = 32_000
_MAX_TEXT: Final = 15_000
_MAX_FILE: Final = 128_000

_SCHEMA_FIX: Final = "see `autograder rubric show robot/place-in-goal` for a rubric with every key"
_SHORTER: Final = "state less, or state it shorter"
_FREE_TEXT: Final = (".txt", ".md")

_Text = Annotated[str, StringConstraints(strict=True, strip_whitespace=True, min_length=1)]
_CriterionId = Annotated[str, StringConstraints(strict=True, pattern=r"^[\w.-]+$", max_length=64)]
_RubricId = Annotated[
    str, StringConstraints(strict=True, pattern=r"^[\w.-]+(/[\w.-]+)*$", max_length=128)
]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Criterion(_Model):
    """One statement that is met, not met, or can't be told."""

    id: _CriterionId
    text: _Text
    required: StrictBool = True


class AtLeast(_Model):
    """Success takes `at_least` of the required criteria."""

    at_least: int = Field(strict=True)


class FrameLimits(_Model):
    """How many cameras a judge sees, and the longer side of each frame in pixels."""

    max_cameras: int = Field(default=4, strict=True, ge=1, le=16)
    long_edge: int = Field(default=768, strict=True, ge=64, le=1568)


class Rubric(_Model):
    """What success means; its identity is the digest of its canonical form.

    A holistic rubric is free text: the one criterion and the expectation are that text, and the
    model's own verdict decides.
    """

    id: _RubricId
    kind: Kind = "frames"
    title: _Text
    expectation: _Text = "The criteria below are met."
    criteria: tuple[Criterion, ...]
    decision: Literal["all_required"] | AtLeast = "all_required"
    frames: FrameLimits = FrameLimits()
    failure_modes: tuple[_Text, ...] = ()
    holistic: StrictBool = False

    @classmethod
    def from_text(cls, text: str, *, kind: Kind = "frames") -> Rubric:
        """Return the rubric that is `text` alone. Raises RubricError if it is empty or too long."""
        text = scrub_surrogates(text).removeprefix("\ufeff").replace("\r\n", "\n").strip()
        if not text:
            raise RubricError("the rubric is empty", fix="say what success must look like")
        if len(text) > _MAX_TEXT:
            raise RubricError(f"the rubric is longer than {_MAX_TEXT} characters", fix=_SHORTER)
        value = {
            "id": f"text/{digest(text.encode())[:12]}",
            "kind": kind,
            "title": "Free text",
            "expectation": text,
            "criteria": [{"id": "holistic", "text": text}],
            "holistic": True,
        }
        return _validated(value, name="rubric")

    @property
    def required(self) -> tuple[Criterion, ...]:
        """The criteria that decide."""
        return tuple(criterion for criterion in self.criteria if criterion.required)

    def to_dict(self) -> dict[str, Any]:
        """Return the canonical form, every default written out."""
        return self.model_dump(mode="json")

    @cached_property
    def digest(self) -> str:
        return digest_of(self.to_dict())

    @model_validator(mode="before")
    @classmethod
    def _title_from_id(cls, value: Any) -> Any:
        if isinstance(value, dict) and "title" not in value and "id" in value:
            return value | {"title": value["id"]}
        return value

    @model_validator(mode="after")
    def _decidable(self) -> Self:
        seen: set[str] = set()
        for number, criterion in enumerate(self.criteria):
            if criterion.id in seen:
                raise _problem(f"the id {criterion.id!r} stands twice", "criteria", number, "id")
            seen.add(criterion.id)
        if not self.required:
            raise _problem("no criterion is required, so any trial would pass", "criteria")
        if isinstance(self.decision, AtLeast):
            most = len(self.required)
            if not 1 <= self.decision.at_least <= most:
                message = f"at_least is from 1 to {most}, the number of required criteria"
                raise _problem(message, "decision", "at_least")
        if self.holistic and (len(self.criteria), self.decision) != (1, "all_required"):
            raise _problem("a holistic rubric has one criterion and decides by it", "holistic")
        texts = [self.title, self.expectation, *self.failure_modes]
        if sum(map(len, texts + [item.text for item in self.criteria])) > _MAX_CHARS:
            raise _problem(f"longer than {_MAX_CHARS} characters in all")
        return self


def load_rubric(text: str, *, name: str) -> Rubric:
    """Return the rubric that a file called `name` holds: YAML, or free text in a .txt or .md.

    Raises RubricError with the name and the line of everything that is wrong.
    """
    if name.lower().endswith(_FREE_TEXT):
        try:
            return Rubric.from_text(text)
        except RubricError as error:
            raise RubricError(f"{name}:1: {error.message}", fix=error.fix) from None
    if len(text) > _MAX_FILE:
        raise RubricError(f"{name}: too long for a rubric", fix=_SHORTER)
    try:
        located = read_yaml(text)
    except LocatedError as error:
        raise RubricError(f"{name}:{error.line}: {error}", fix=_SCHEMA_FIX) from None
    return _validated(located.value, name=name, located=located)


def rubric_from_json(value: Any, *, kind: Kind = "frames") -> Rubric:
    """Return the rubric that a JSON value means.

    A string is an id of the library or free text; {"text": …} is free text; any other object is
    a rubric, whose id may be left out. `kind` is used where the value does not say. Raises
    RubricError.
    """
    if isinstance(value, str):
        return resolve_rubric(value, kind=kind)
    if isinstance(value, Mapping):
        if isinstance(value.get("text"), str) and value.keys() <= {"text", "kind"}:
            return Rubric.from_text(value["text"], kind=value.get("kind", kind))
        rubric = _validated({"id": "inline", "kind": kind, **value}, name="rubric")
        if "id" not in value:
            named = rubric.to_dict() | {"id": f"inline/{rubric.digest[:12]}"}
            rubric = _validated(named, name="rubric")
        return rubric
    raise RubricError(
        f"a rubric is a text or an object, not {type(value).__name__}", fix=_SCHEMA_FIX
    )


def resolve_rubric(ref: str, *, kind: Kind = "frames") -> Rubric:
    """Return the library's rubric of that id, or `ref` as free text if it has white space.

    Raises RubricError.
    """
    ref = ref.strip()
    if ref and not any(char.isspace() for char in ref):
        return library_rubric(ref)
    return Rubric.from_text(ref, kind=kind)


@cache
def library() -> Mapping[str, Rubric]:
    """Return the rubrics that come with the project, by id. Raises SetupError if there is none."""
    found: dict[str, Rubric] = {}
    root = _library_root()
    for folder in sorted(root.iterdir(), key=lambda item: item.name):
        if not folder.is_dir():
            continue
        for file in sorted(folder.iterdir(), key=lambda item: item.name):
            name = f"{folder.name}/{file.name}"
            if name.endswith(".yaml"):
                rubric = load_rubric(file.read_text(encoding="utf-8"), name=name)
                if rubric.id != name.removesuffix(".yaml"):
                    raise SetupError(f"the rubric in {name} calls itself {rubric.id}")
                found[rubric.id] = rubric
    return MappingProxyType(found)


def rubric_of_kind(value: Any, *, kind: Kind) -> Rubric:
    """Return the rubric that somebody asks for, as `rubric_from_json` reads it, or the default.

    Raises RubricError, and InputError for a rubric of the other kind.
    """
    if value is None:
        return library_rubric(DEFAULT_FRAMES if kind == "frames" else DEFAULT_BUNDLE)
    rubric = rubric_from_json(value, kind=kind)
    if rubric.kind != kind:
        raise InputError(
            f"the rubric {rubric.id} is for {rubric.kind}, this trial is judged by its {kind}",
            fix=f"use a rubric of kind {kind}",
        )
    return rubric


def library_rubric(id_: str) -> Rubric:
    """Return a rubric of the library. Raises RubricError, naming the ids that are nearest."""
    rubric = library().get(id_)
    if rubric is not None:
        return rubric
    near = difflib.get_close_matches(id_, library(), n=3, cutoff=0.5)
    raise RubricError(
        f"there is no rubric {id_[:80]!r}"
        + (f"; did you mean {' or '.join(near)}?" if near else ""),
        fix="list them with `autograder rubric list`, or write the rubric as a sentence",
    )


def _library_root() -> Traversable:
    """Wheels carry the rubrics inside the package; a checkout has them beside it."""
    package = resources.files("grader_service")
    packaged = package / "_rubrics"
    if packaged.is_dir():
        return packaged
    checkout = Path(str(package)).parent / "rubrics"
    if checkout.is_dir():
        return checkout
    raise SetupError("the rubric library is missing", fix="reinstall robot-autograder")


def _problem(message: str, *at: str | int) -> PydanticCustomError:
    """Return a validation error about the value at the path `at` inside the model."""
    return PydanticCustomError("rubric", "{message}", {"message": message, "at": at})


def _validated(value: Any, *, name: str, located: Located | None = None) -> Rubric:
    try:
        return Rubric.model_validate(value)
    except ValidationError as error:
        problems = dict.fromkeys(_describe(item) for item in error.errors(include_url=False))
    texts = [f"{name}{f':{located.line(at)}' if located else ''}: {what}" for at, what in problems]
    raise RubricError("\n".join(texts), fix=_SCHEMA_FIX)


def _describe(error: ErrorDetails) -> tuple[tuple[str | int, ...], str]:
    """Return where a validation error is and what it says, in a rubric author's words."""
    at = error["loc"] + tuple(error.get("ctx", {}).get("at", ()))
    kind, message = error["type"], error["msg"]
    if at[:1] == ("decision",) and kind != "rubric":
        at, message = at[:1], "neither all_required nor {at_least: n}"
    elif kind == "missing":
        at, message = at[:-1], f"the key {at[-1]!r} is missing"
    else:
        message = _IN_OUR_WORDS.get(kind, message)
    where = ".".join(str(step) for step in at)
    return at, f"{where}: {message}" if where else message


_IN_OUR_WORDS: Final = {
    "extra_forbidden": "unknown key",
    "model_type": "not a mapping of keys to values",
    "string_too_short": "empty",
    "string_type": "not a text; put it in quotes",
    "tuple_type": "not a list",
}
