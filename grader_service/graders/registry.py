"""Graders by name: registered by decorator, or by other packages through an entry point.

A package that brings a grader names its factory in the group `robot_autograder.graders`:

    [project.entry-points."robot_autograder.graders"]
    gripper_force = "my_package.graders:gripper_force"
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from grader_service.scoring.registry import Registry

F = TypeVar("F", bound=Callable[..., Any])


@runtime_checkable
class Grader(Protocol):
    """Captures a verdict onto a record, once, before scorers run.

    The protocol of `inspect_robots`: the same object is one for `eval(grader=…)`. It never raises
    for a trial that it can't grade; the record then says so.
    """

    @property
    def name(self) -> str: ...

    def grade(self, record: Any, scene: Any) -> None: ...


_GRADERS: Final[Registry[Grader]] = Registry(
    "grader",
    "robot_autograder.graders",
    Grader,  # type: ignore[type-abstract]  # only for isinstance
    described="an object with a name and a method grade(record, scene)",
)


def grader(name: str | None = None) -> Callable[[F], F]:
    """Register a factory of graders under `name`, or under its own name: `@grader()`."""
    return _GRADERS.register(name)


def grader_names() -> list[str]:
    """Return the names of all graders there are, sorted."""
    return _GRADERS.names()


def resolve_grader(name: str, /, **options: Any) -> Grader:
    """Return a new grader of this name; `options` go to its factory. Raises UsageError."""
    return _GRADERS.resolve(name, **options)
