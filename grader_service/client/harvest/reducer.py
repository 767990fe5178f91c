"""Which reducer a log was made with: the log itself does not say."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from grader_service.client.harvest.log_file import LogFile
from grader_service.client.harvest.scorers import JUDGEMENT_SCORERS
from grader_service.errors import InputError, UsageError
from grader_service.scoring import Dialect, Score, get_reducer, reduce_scores, value_to_float

_FIX: Final = (
    "name the reducer of the task's Epochs: --reducer mean|median|max|min|mode|pass_at_<k>"
)
# Tasks that the command line makes up; their Epochs are the usual ones.
_MADE_UP: Final = ("adhoc", "auto")
_FAILED: Final = re.compile(r"(?:^|; )reducer '([^']+)' failed for scorer ")


def find_reducer(log: LogFile, task: Any | None, *, given: str | None = None) -> str:
    """Return the name of the log's reducer, having checked it against every reduced score.

    It is the one `given`, else that of the registered `task`, else the one that an error in the
    log names, else the usual one where tasks can't choose or nothing depends on it. Raises
    UsageError for a name that is none, InputError where none is found or one does not fit.
    """
    name = given or _of_task(task) or _of_errors(log) or _only_one(log)
    if name is None:
        raise InputError(
            f"{log.path} does not tell its reducer, and the task {log.value['eval']['task']!r} is "
            "not registered here with these scenes",
            fix=_FIX,
        )
    try:
        get_reducer(name)
    except ValueError as error:
        raise UsageError(str(error), fix=_FIX) from error
    for where, saved, found in _reductions(log, name):
        if saved != found:
            raise InputError(
                f"{log.path} was not reduced by {name!r}: {where} is {saved}, not {found}", fix=_FIX
            )
    return name


def registered_task(log: LogFile) -> Any | None:
    """Return the harness' task of the log, made anew; None where its scenes are not the log's.

    What arguments a run gave its task is not in the log: another set of scenes shows that the task
    made here is another one.
    """
    try:
        from inspect_robots.registry import resolve

        task = resolve("task", log.value["eval"]["task"])
        scenes = {scene.id for scene in task.scenes}
    except Exception:  # noqa: BLE001  # not installed, not registered, or whatever its factory raises
        return None
    return task if all(sample["scene_id"] in scenes for sample in log.value["samples"]) else None


def _of_task(task: Any | None) -> str | None:
    return None if task is None else str(task.epoch_spec.reducer)


def _of_errors(log: LogFile) -> str | None:
    for sample in log.value["samples"]:
        found = _FAILED.search(sample.get("error") or "")
        if found:
            return found[1]
    return None


def _only_one(log: LogFile) -> str | None:
    single = all(sum(map(bool, sample["epochs"])) <= 1 for sample in log.value["samples"])
    return "mean" if single or log.value["eval"]["task"] in _MADE_UP else None


def _reductions(log: LogFile, reducer: str) -> Iterator[tuple[str, Any, Any]]:
    """Return (what it is, its saved value, its value by this reducer), "none" for no value."""
    for sample in log.value["samples"]:
        for name in sorted({name for epoch in sample["epochs"] for name in epoch}):
            values = [epoch[name] for epoch in sample["epochs"] if name in epoch]
            if not _known(values, name, log.dialect) or _told_to_fail(sample, name):
                continue
            try:
                found: Any = finite(reduced(reducer, values, log.dialect))
            except (ValueError, TypeError, ArithmeticError):
                found = "none"
            where = f"scene {sample['scene_id']!r}, scorer {name!r}"
            yield where, sample["reduced"].get(name, "none"), found


def _known(values: list[float | None], name: str, dialect: Dialect) -> bool:
    """Say whether the values are all that was reduced.

    null stands for a number that JSON lacks; of scorers that yield none, for an abstention.
    """
    return None not in values or (dialect == "newest" and name in JUDGEMENT_SCORERS)


def _told_to_fail(sample: Mapping[str, Any], name: str) -> bool:
    return f"' failed for scorer {name!r}: " in (sample.get("error") or "")


def reduced(reducer: str, values: list[float | None], dialect: Dialect) -> float | None:
    """Return one scene's scores as one number; None where all of them abstained."""
    score = reduce_scores(reducer, [Score(value) for value in values], dialect=dialect)
    return value_to_float(score.value, dialect=dialect)


def finite(value: float | None) -> float | None:
    """Return a number as a log saves it: None for NaN and infinity."""
    return value if value is not None and math.isfinite(value) else None
