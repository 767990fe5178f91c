"""A list whose items are made when they are first read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableSequence
from itertools import repeat
from operator import is_
from typing import Any, Final, TypeVar, overload

T = TypeVar("T")

_UNMADE: Final = object()


class LazyList(MutableSequence[T]):
    """`count` items; `make(start, stop)` returns the items of those rows when they are first read.

    An item that was read stays the same object, as in a list.
    """

    def __init__(self, count: int, make: Callable[[int, int], list[T]]) -> None:
        self._items: list[Any] = [_UNMADE] * count
        self._make = make
        self._complete = False

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        rows = range(len(self._items))[index]
        if isinstance(rows, int):
            return self._take(rows, rows + 1)[0]
        if rows.step != 1:
            return self._whole()[index]
        return self._take(rows.start, rows.stop)

    def __iter__(self) -> Iterator[T]:
        return iter(self._whole())

    def __setitem__(self, index: Any, value: Any) -> None:
        self._whole()[index] = value

    def __delitem__(self, index: int | slice) -> None:
        del self._whole()[index]

    def insert(self, index: int, value: T) -> None:
        self._whole().insert(index, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, list | LazyList) and self._whole() == list(other)

    __hash__ = None  # type: ignore[assignment]  # mutable, as a list is

    def __reduce__(self) -> tuple[type[list[T]], tuple[list[T]]]:
        """Copy and pickle it as the list that it stands for."""
        return list, (self._whole(),)

    def _take(self, start: int, stop: int) -> list[T]:
        items = self._items[start:stop]
        unmade = 0 if self._complete else sum(map(is_, items, repeat(_UNMADE)))
        if not unmade:
            return items
        taken = self._make(start, stop)
        if unmade < len(items):
            taken = [new if old is _UNMADE else old for old, new in zip(items, taken, strict=True)]
        self._items[start:stop] = taken
        return taken

    def _whole(self) -> list[T]:
        if not self._complete:
            self._take(0, len(self._items))
            self._complete = True
        return self._items
