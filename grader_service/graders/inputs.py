"""What lies on disk, as folders of trials to be graded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from grader_service.client.disk import TRAJECTORY_PATH, Found, find_inputs, read_bytes
from grader_service.client.submissions import Choices, Draft, drafts
from grader_service.errors import UsageError
from grader_service.graders.folder import TrialFolder, folder_name, is_trial_folder
from grader_service.graders.trial import Kind, submitted_files
from grader_service.records.canonical import digest
from grader_service.records.saved import RECORD_PATH
from grader_service.records.trajectory import parse_trajectory


@dataclass(frozen=True, slots=True)
class Todo:
    """One trial that was named. `open` gives its folder; AutograderError for a bad one."""

    where: str
    kind: Kind
    open: Callable[[], TrialFolder]


def find_trials(
    paths: Iterable[str], output: Path | None, *, kinds: Collection[str]
) -> Iterator[Todo]:
    """Return the trials that paths name; `kinds` are those that will be opened.

    Saved and exported trials are graded where they are. Others, trajectories and logs as a harness
    wrote them and what a trials.json or trial.json lists, stay as they are: each is graded in a
    folder of its own below `output`. Raises InputError for a path that names nothing, UsageError
    where one needs an `output`.
    """
    for found in find_inputs(paths):
        kind: Kind = "a320" if found.kind == "a320" else "robot"
        folder = _trial_folder(found)
        if folder is not None:
            yield Todo(str(folder), kind, partial(TrialFolder, folder))
            continue
        if output is None and kind in kinds:
            raise UsageError(
                f"{found.path} is not changed by grading",
                fix="say with --out DIR where graded trials are to be written",
            )
        target = output or Path()
        if found.kind == "a320":
            yield Todo(str(found.path), kind, partial(_of_trajectory, found.path, target))
        else:
            for draft in drafts(found, Choices(run="grade")):
                where = f"{draft.path} ({draft.name})"
                yield Todo(where, kind, partial(_of_entry, draft, target))


def _trial_folder(found: Found) -> Path | None:
    if found.kind == "record":
        return found.path
    folder = found.path.parent
    exported = found.path.name == TRAJECTORY_PATH and is_trial_folder(folder)
    return folder if exported else None


def _of_trajectory(path: Path, output: Path) -> TrialFolder:
    data = read_bytes(path)
    # A file of something else gets no folder.
    parse_trajectory(data)
    target = output / folder_name(path.stem, digest(data))
    return TrialFolder.create(target, {TRAJECTORY_PATH: data})


def _of_entry(draft: Draft, output: Path) -> TrialFolder:
    submission = draft.build()
    files = submitted_files(submission.trial, submission.parts)
    target = output / folder_name(draft.name, digest(files[RECORD_PATH]))
    return TrialFolder.create(target, files, own_rubric=submission.trial["rubric"])
