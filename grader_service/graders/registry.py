"""Graders by name: registered by decorator, or by other packages through an entry point.

A package that brings a grader names its factory in the group `robot_autograder.graders`:

    [project.entry-points."robot_autograder.graders"]
    gripper_force = "my_package.graders:gripper_force"
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from grader_service.errors import UsageError

ENTRY_POINTS: Final = "robot_autograder.graders"


@runtime_checkable
class Grader(Protocol):
    """Captures a verdict onto a record, once, before scorers run.

    The protocol of `inspect_robots`: the same object is one for `eval(grader=…)`. It never raises
    for a trial that it can't grade; the record then says so.
    """

    @property
    def name(self) -> str: ...

    def grade(self, record: Any, scene: Any) -> None: ...


Factory = Callable[..., Grader]
F = TypeVar("F", bound=Factory)

_registered: dict[str, Factory] = {}


def grader(name: str | None = None) -> Callable[[F], F]:
    """Register a factory of graders under `name`, or under its own name: `@grader()`."""

    def register(factory: F) -> F:
        _registered[name or factory.__name__] = factory
        return factory

    return register


def grader_names() -> list[str]:
    """Return the names of all graders there are, sorted."""
    return sorted(_factories())


def resolve_grader(name: str, /, **options: Any) -> Grader:
    """Return a new grader of this name; `options` go to its factory. Raises UsageError."""
    # Plug-ins are looked for only when they are needed: that reads every installed package.
    factories = _registered if name in _registered else _factories()
    if name not in factories:
        raise UsageError(
            f"there is no grader named {name!r}", fix=f"name one of {', '.join(sorted(factories))}"
        )
    made: object = factories[name](**options)
    if not isinstance(made, Grader):
        raise UsageError(
            f"the factory of {name!r} gives no grader",
            fix="return an object with a name and a method grade(record, scene)",
        )
    return made


def _factories() -> dict[str, Factory]:
    return {**_plugins(), **_registered}


@cache
def _plugins() -> Mapping[str, Factory]:
    from importlib.metadata import entry_points

    found: dict[str, Factory] = {}
    for point in entry_points(group=ENTRY_POINTS):
        try:
            found.setdefault(point.name, point.load())
        except Exception as error:  # noqa: BLE001  # whatever another package raises on import
            warnings.warn(
                f"grader {point.name!r} of {point.value!r} can't be loaded: {error!r}",
                RuntimeWarning,
                stacklevel=2,
            )
    return found
