"""Lists of like values as columns: what thousands of steps have in common is written once.

A column is a JSON object. One key names its form:

    {"range": [first, step]}                 integers in arithmetic progression
    {"runs": [[value, times], ...]}          numbers or booleans that seldom change
    {"array": A, "as": "float"|"int"|"bool"|"np"}   one number per row
    {"array": A, "as": "rows"}               arrays of one type and shape, stacked
    {"repeat": A}                            the same array in each row
    {"choices": [...], "codes": column}      a few distinct strings, numbers, booleans or None
    {"dict": [{"keys", "columns"}, ...], "which": column}   dicts, grouped by their keys
    {"list": [...], "which": column}         lists, grouped by their length; "tuple" likewise
    {"inline": [...]}                        anything else, as tagged values

A is an array as `tagged` writes it. Rows come back exactly, with the order of their keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, TypeGuard

import numpy as np

from grader_service.errors import NotFoundError, RecordError
from grader_service.records.canonical import digest, scrub_surrogates
from grader_service.records.lazy import LazyList
from grader_service.records.npy import npy_array, npy_bytes
from grader_service.records.tagged import check_dtype, decode, encode, encode_array, inline_array
from grader_service.records.trial import Array

# The most rows of a table, and of all columns together: a few bytes of JSON could ask for any
# number of them. A row takes about 1 kB once its step is made, a cell up to 80 bytes. So many
# steps are half an hour at 50 Hz.
MAX_ROWS = 100_000
MAX_CELLS = 5_000_000

_SHA256 = re.compile(r"[0-9a-f]{64}")
_FEW_ROWS = 16
_ROWS_PER_RUN = 8
_MAX_GROUPS = 16
_MAX_LIST = 64
_MAX_NESTING = 4
_CELL_BYTES = 8
_MAX_REPEATED_BYTES = 2_000_000
_NUMBERS: Mapping[type, str] = {float: "float", int: "int", bool: "bool"}
_GROUPS: Mapping[str, type[Any]] = {"dict": dict, "list": list, "tuple": tuple}
_CHOICES = frozenset({str, int, bool, type(None)})


def is_sha256(value: object) -> TypeGuard[str]:
    """Say whether this is a sha256 as digests are written here."""
    return isinstance(value, str) and _SHA256.fullmatch(value) is not None


def column_path(sha256: str) -> str:
    """Return where a record keeps the array with this digest. Raises RecordError."""
    if not is_sha256(sha256):
        raise RecordError(f"{sha256[:80]!r} is no sha256 of 64 lower-case hex digits")
    return f"columns/{sha256}.npy"


class ColumnWriter:
    """Writes columns. Arrays of more than `inline_bytes` go to `files`, by relative path."""

    def __init__(self, inline_bytes: float = 512) -> None:
        self.files: dict[str, bytes] = {}
        self._inline_bytes = inline_bytes
        self._cells = 0

    def put(self, array: Array) -> Any:
        """Keep an array, inline or as a file, and return its tagged JSON."""
        if array.nbytes <= self._inline_bytes:
            return inline_array(array)
        data = npy_bytes(array)
        sha256 = digest(data)
        self.files[column_path(sha256)] = data
        return {"$column": sha256}

    def table(self, count: int, values: Mapping[str, list[Any]], where: str) -> Any:
        """Return lists of `count` values each, by name, as {"count", "columns"}."""
        _check_rows(count, where)
        columns = {name: self.column(values[name], f"{where}[*].{name}") for name in values}
        return {"count": count, "columns": columns}

    def column(self, values: list[Any], where: str, nesting: int = 0) -> Any:
        """Return `values` as a column. Raises RecordError, naming `where`."""
        self._cells = _add_cells(self._cells, len(values), where)
        kinds = set(map(type, values))
        column = None
        if len(kinds) == 1:
            (kind,) = kinds
            if kind is np.ndarray:
                column = self._stacked(values, where)
            elif kind in _NUMBERS or issubclass(kind, np.number | np.bool):
                column = self._numbers(values, kind, where)
        if column is None and kinds <= _CHOICES:
            column = self._choices(values, kinds, where)
        if column is None and nesting < _MAX_NESTING:
            column = self._grouped(values, kinds, where, nesting)
        return column or {"inline": [encode(value, where, self.put) for value in values]}

    def _numbers(self, values: list[Any], kind: type, where: str) -> Any:
        count = len(values)
        if count <= _FEW_ROWS:
            return None
        if kind is int:
            step = values[1] - values[0]
            stop = values[0] + step * count
            if step and values[-1] + step == stop and values == [*range(values[0], stop, step)]:
                return {"range": [encode(number, where, self.put) for number in (values[0], step)]}
            array = _smallest(values)
        else:
            array = np.array(values)
        if array is None or array.dtype.itemsize > _CELL_BYTES:
            return None
        # Compared as bits, so that NaN equals itself and -0.0 differs from 0.0.
        bits = array.view(f"u{array.dtype.itemsize}")
        starts = [0, *(np.flatnonzero(bits[1:] != bits[:-1]) + 1).tolist()]
        if len(starts) * _ROWS_PER_RUN <= count:
            runs = zip(starts, [*starts[1:], count], strict=True)
            return {"runs": [[encode(values[i], where, self.put), j - i] for i, j in runs]}
        return {"array": encode_array(array, where, self.put), "as": _NUMBERS.get(kind, "np")}

    def _stacked(self, values: list[Array], where: str) -> Any:
        first = values[0]
        check_dtype(first.dtype, where)
        if len(set(map(attrgetter("dtype"), values))) > 1:
            return None
        try:
            joined = np.concatenate(values) if first.ndim else np.stack(values)
        except ValueError:  # shapes that differ in more than the length
            return None
        if first.ndim and len(set(map(len, values))) > 1:
            return None
        if joined.dtype != first.dtype:  # numpy turns foreign byte order into its own
            return None
        stacked = joined.reshape(len(values), *first.shape)
        if len(values) > 1 and joined.nbytes <= _MAX_REPEATED_BYTES and _is_constant(stacked):
            self._cells = _add_cells(self._cells, joined.nbytes // _CELL_BYTES, where)
            return {"repeat": encode_array(first, where, self.put)}
        return {"array": encode_array(stacked, where, self.put), "as": "rows"}

    def _choices(self, values: list[Any], kinds: set[type], where: str) -> Any:
        # True equals 1: where both may occur, values are told apart by type too.
        typed = {int, bool} <= kinds
        keys = list(zip(map(type, values), values, strict=True)) if typed else values
        codes = {key: code for code, key in enumerate(_distinct(keys))}
        if len(values) <= _FEW_ROWS or len(codes) * 2 > len(values):
            return None
        choices = [key[1] for key in codes] if typed else list(codes)
        return {
            "choices": [encode(value, where, self.put) for value in choices],
            **self._codes("codes", codes, keys, where),
        }

    def _grouped(self, values: list[Any], kinds: set[type], where: str, nesting: int) -> Any:
        shapes: list[Any]
        if kinds and all(issubclass(kind, Mapping) for kind in kinds):
            form, shapes = "dict", list(map(tuple, values))
        elif kinds in ({list}, {tuple}):
            form = "list" if list in kinds else "tuple"
            shapes = list(map(len, values))
        else:
            return None
        codes = {shape: code for code, shape in enumerate(_distinct(shapes))}
        if len(codes) > _MAX_GROUPS or not all(map(_is_groupable, codes)):
            return None
        rows: dict[Any, list[Any]] = {shape: [] for shape in codes}
        for shape, value in zip(shapes, values, strict=True):
            rows[shape].append(value)
        groups = []
        for shape, members in rows.items():
            keys = list(shape) if form == "dict" else list(range(shape))
            columns = [
                self.column(list(map(itemgetter(key), members)), f"{where}[{key!r}]", nesting + 1)
                for key in keys
            ]
            groups.append({"keys": keys, "columns": columns})
        return {form: groups, **self._codes("which", codes, shapes, where)}

    def _codes(self, name: str, codes: dict[Any, int], keys: list[Any], where: str) -> Any:
        """Return the column of `codes[key]` for each key under `name`; nothing for one code."""
        if len(codes) == 1:
            return {}
        return {name: self.column(list(map(codes.__getitem__, keys)), where)}


class ColumnReader:
    """Reads the columns of one record; `read` gives the bytes of a file of that record."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self._read = read
        self._cells = 0
        self._got: set[str] = set()

    def get(self, sha256: str) -> Array:
        """Return the array with this digest. Raises RecordError."""
        path = column_path(sha256)
        data = read_part(self._read, path)
        if digest(data) != sha256:
            raise RecordError(f"{path} does not have the content that its name promises")
        if sha256 in self._got:  # each time is another copy
            self._cells = _add_cells(self._cells, len(data) // _CELL_BYTES, path)
        self._got.add(sha256)
        return npy_array(data, path)

    def table(self, data: Any, where: str) -> dict[str, Sequence[Any]]:
        """Return the columns of a table by name. Raises RecordError."""
        count = table_count(data, where)
        columns = data["columns"]
        return {name: self.column(columns[name], count, f"{where}.{name}") for name in columns}

    def column(self, data: Any, count: int, where: str) -> Sequence[Any]:
        """Return the `count` values of a column. Raises RecordError."""
        self._cells = _add_cells(self._cells, count, where)
        try:
            form = next(key for key in data if key in self._FORMS)
            values = self._FORMS[form](self, data, count, where)
        except RecordError:
            raise
        except (ValueError, TypeError, KeyError, IndexError, OverflowError, StopIteration) as error:
            raise RecordError(f"{where} is no column: {error!r}") from error
        if len(values) != count:
            raise RecordError(f"{where} has {len(values)} rows where {count} are due")
        return values

    def _array(self, data: Any, where: str) -> Array:
        array = decode(data, where, self.get)
        if not isinstance(array, np.ndarray):
            raise TypeError(f"{type(array).__name__} is no array")
        return array

    def _range(self, data: Any, count: int, where: str) -> Sequence[Any]:
        first, step = decode(data["range"], where, self.get)
        return list(range(first, first + step * count, step))

    def _runs(self, data: Any, count: int, where: str) -> Sequence[Any]:
        runs = data["runs"]
        if sum(times for _, times in runs) != count or any(times < 1 for _, times in runs):
            raise ValueError("its runs do not add up")
        values: list[Any] = []
        for value, times in runs:
            values += [decode(value, where, self.get)] * times
        return values

    def _from_array(self, data: Any, _count: int, where: str) -> Sequence[Any]:
        array = self._array(data["array"], where)
        form = data["as"]
        if form == "rows":
            return _rows(array)
        if array.ndim != 1:
            raise ValueError("its array has not one dimension")
        values: list[Any] = list(array) if form == "np" else array.tolist()
        if form != "np" and values and _NUMBERS.get(type(values[0])) != form:
            raise TypeError(f"its array holds no values of type {form}")
        return values

    def _repeated(self, data: Any, count: int, where: str) -> Sequence[Any]:
        row = self._array(data["repeat"], where)
        self._cells = _add_cells(self._cells, count * row.nbytes // _CELL_BYTES, where)
        return _rows(np.repeat(row[np.newaxis], count, axis=0))

    def _chosen(self, data: Any, count: int, where: str) -> Sequence[Any]:
        choices = decode(data["choices"], where, self.get)
        if len(choices) == 1:
            return [choices[0]] * count
        return [choices[code] for code in self.column(data["codes"], count, where)]

    def _grouped(self, data: Any, count: int, where: str) -> Sequence[Any]:
        form = next(form for form in _GROUPS if form in data)
        groups = data[form]
        if len(groups) == 1:
            return self._group(groups[0], form, count, where)
        which = self.column(data["which"], count, where)
        rows = [
            iter(self._group(group, form, which.count(code), where))
            for code, group in enumerate(groups)
        ]
        return [next(rows[code]) for code in which]

    def _group(self, data: Any, form: str, count: int, where: str) -> Sequence[Any]:
        keys = [*data["keys"]]
        columns = [
            self.column(column, count, f"{where}[{key!r}]")
            for key, column in zip(keys, data["columns"], strict=True)
        ]
        if form == "dict" and not all(isinstance(key, str) for key in keys):
            raise TypeError("its keys are not strings")
        kind = _GROUPS[form]

        def make(start: int, stop: int) -> list[Any]:
            if not columns:
                return [kind() for _ in range(start, stop)]
            if form == "dict" and len(keys) == 1:
                return [{keys[0]: value} for value in columns[0][start:stop]]
            rows = zip(*(column[start:stop] for column in columns), strict=True)
            if form == "dict":
                return [dict(zip(keys, row, strict=False)) for row in rows]
            return list(map(kind, rows))

        return LazyList(count, make)

    def _inline(self, data: Any, _count: int, where: str) -> Sequence[Any]:
        values = decode(data["inline"], where, self.get)
        if not isinstance(values, list):
            raise TypeError("its values are no list")
        return values

    _FORMS: Mapping[str, Callable[[ColumnReader, Any, int, str], Sequence[Any]]] = {
        "range": _range,
        "runs": _runs,
        "array": _from_array,
        "repeat": _repeated,
        "choices": _chosen,
        "dict": _grouped,
        "list": _grouped,
        "tuple": _grouped,
        "inline": _inline,
    }


def read_part(read: Callable[[str], bytes], path: str) -> bytes:
    """Return a file of a record. Raises RecordError where `read` finds none."""
    try:
        return read(path)
    except (KeyError, FileNotFoundError, NotFoundError) as error:
        raise RecordError(
            f"{path} is missing", fix="save or submit the whole folder of the record"
        ) from error


def table_count(data: Any, where: str, names: Iterable[str] = ()) -> int:
    """Return how many rows a table has.

    Raises RecordError for what is no table, and for one without the columns `names` or with more
    than MAX_ROWS rows.
    """
    count = data.get("count") if isinstance(data, dict) else None
    if type(count) is not int or count < 0 or not isinstance(data.get("columns"), dict):
        raise RecordError(f"{where} is no table of columns")
    missing = [name for name in names if name not in data["columns"]]
    if missing:
        raise RecordError(f"{where} misses the column {missing[0]!r}")
    _check_rows(count, where)
    return count


def _check_rows(count: int, where: str) -> None:
    if count > MAX_ROWS:
        raise RecordError(
            f"{where}: a record holds at most {MAX_ROWS:,} steps or events",
            fix="record fewer steps",
        )


def _add_cells(cells: int, more: int, where: str) -> int:
    if cells + more > MAX_CELLS:
        raise RecordError(
            f"{where}: a record holds at most {MAX_CELLS:,} values in columns",
            fix="record fewer steps or fewer values per step",
        )
    return cells + more


def _distinct(values: list[Any]) -> Iterable[Any]:
    """Return the distinct values in order; counting is the quick way to find only one."""
    same = bool(values) and values.count(values[0]) == len(values)
    return values[:1] if same else dict.fromkeys(values)


def _smallest(values: Sequence[int]) -> Array | None:
    low, high = min(values), max(values)
    for dtype in (np.int8, np.int16, np.int32, np.int64):
        if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
            return np.array(values, dtype)
    return None


def _is_groupable(shape: tuple[Any, ...] | int) -> bool:
    if isinstance(shape, int):
        return shape <= _MAX_LIST
    return all(type(key) is str and scrub_surrogates(key) == key for key in shape)


def _is_constant(stacked: Array) -> bool:
    """Say whether all rows have the same bits."""
    if stacked[0].tobytes() != stacked[-1].tobytes():
        return False
    rows = np.ascontiguousarray(stacked).reshape(len(stacked), -1)
    bits = rows.view(np.uint8)
    return bool((bits == bits[0]).all())


def _rows(array: Array) -> list[Any]:
    """Return the rows of an array as arrays, also where a row is a single number."""
    return list(array) if array.ndim > 1 else [array[i, ...] for i in range(len(array))]
