"""What can be named: registered by decorator, or by other packages through an entry point.

A package that brings a scorer names its factory in the group `grader_service.scorers`:

    [project.entry-points."grader_service.scorers"]
    path_length = "my_package.scorers:path_length"
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, Final, Generic, TypeVar

from grader_service.errors import UsageError
from grader_service.scoring.score import Scorer

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Registry(Generic[T]):
    """Factories of one kind of thing by name, those of entry points in `group` included.

    `form` is the protocol that what a factory makes must have, and `described` says it in words.
    """

    def __init__(self, kind: str, group: str, form: type[T], *, described: str) -> None:
        self.kind = kind
        self.group = group
        self._form = form
        self._described = described
        self._registered: dict[str, Callable[..., T]] = {}

    def register(self, name: str | None = None) -> Callable[[F], F]:
        """Register a factory under `name`, or under its own name."""

        def add(factory: F) -> F:
            self._registered[name or factory.__name__] = factory
            return factory

        return add

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return sorted({*self._plugins, *self._registered})

    def resolve(self, name: str, /, **options: Any) -> T:
        """Return a new thing of this name; `options` go to its factory. Raises UsageError."""
        # Plug-ins are looked for only when they are needed: that reads every installed package.
        factory = self._registered.get(name) or self._plugins.get(name)
        if factory is None:
            raise UsageError(
                f"there is no {self.kind} named {name!r}",
                fix=f"name one of {', '.join(self.names())}",
            )
        made: object = factory(**options)
        if not isinstance(made, self._form):
            raise UsageError(
                f"the factory of {name!r} gives no {self.kind}", fix=f"return {self._described}"
            )
        return made

    @cached_property
    def _plugins(self) -> Mapping[str, Callable[..., T]]:
        from importlib.metadata import entry_points

        found: dict[str, Callable[..., T]] = {}
        for point in entry_points(group=self.group):
            try:
                found.setdefault(point.name, point.load())
            except Exception as error:  # noqa: BLE001  # whatever another package raises on import
                warnings.warn(
                    f"{self.kind} {point.name!r} of {point.value!r} can't be loaded: {error!r}",
                    RuntimeWarning,
                    stacklevel=2,
                )
        return found


_SCORERS: Final[Registry[Scorer]] = Registry(
    "scorer",
    "grader_service.scorers",
    Scorer,  # type: ignore[type-abstract]  # only for isinstance
    described="an object with a name that is called with (record, target)",
)


def scorer(name: str | None = None) -> Callable[[F], F]:
    """Register a factory of scorers under `name`, or under its own name: `@scorer()`."""
    return _SCORERS.register(name)


def scorer_names() -> list[str]:
    """Return the names of all scorers there are, sorted."""
    return _SCORERS.names()


def resolve_scorer(name: str, /, **options: Any) -> Scorer:
    """Return a new scorer of this name; `options` go to its factory. Raises UsageError."""
    return _SCORERS.resolve(name, **options)


def resolve_scorers(names: Iterable[str]) -> list[Scorer]:
    """Return new scorers of these names. Raises UsageError."""
    return [resolve_scorer(name) for name in names]
