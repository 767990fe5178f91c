"""Scorers by name: registered by decorator, or by other packages through an entry point.

A package that brings a scorer names its factory in the group `grader_service.scorers`:

    [project.entry-points."grader_service.scorers"]
    path_length = "my_package.scorers:path_length"
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final, TypeVar

from grader_service.errors import UsageError
from grader_service.scoring.score import Scorer

ENTRY_POINTS: Final = "grader_service.scorers"

Factory = Callable[..., Scorer]
F = TypeVar("F", bound=Factory)

_registered: dict[str, Factory] = {}


def scorer(name: str | None = None) -> Callable[[F], F]:
    """Register a factory of scorers under `name`, or under its own name: `@scorer()`."""

    def register(factory: F) -> F:
        _registered[name or factory.__name__] = factory
        return factory

    return register


def scorer_names() -> list[str]:
    """Return the names of all scorers there are, sorted."""
    return sorted(_factories())


def resolve_scorer(name: str, /, **options: Any) -> Scorer:
    """Return a new scorer of this name; `options` go to its factory. Raises UsageError."""
    # Plug-ins are looked for only when they are needed: that reads every installed package.
    factories = _registered if name in _registered else _factories()
    if name not in factories:
        raise UsageError(
            f"there is no scorer named {name!r}", fix=f"name one of {', '.join(sorted(factories))}"
        )
    made: object = factories[name](**options)
    if not isinstance(made, Scorer):
        raise UsageError(
            f"the factory of {name!r} gives no scorer",
            fix="return an object with a name that is called with (record, target)",
        )
    return made


def resolve_scorers(names: Iterable[str]) -> list[Scorer]:
    """Return new scorers of these names. Raises UsageError."""
    return [resolve_scorer(name) for name in names]


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
                f"scorer {point.name!r} of {point.value!r} can't be loaded: {error!r}",
                RuntimeWarning,
                stacklevel=2,
            )
    return found
