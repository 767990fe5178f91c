"""What is on disk, as submissions: the JSON of the part `trial` and the other parts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from grader_service.client.disk import (
    TRIAL_PATH,
    Found,
    read_bytes,
    read_saved,
    trajectory_bytes,
)
from grader_service.client.harvest.log_trials import LogTrial
from grader_service.client.upstream_runs import UpstreamRun, read_run, scene_of
from grader_service.errors import AutograderError, InputError
from grader_service.records.saved import save_trial
from grader_service.records.strict_json import parse_strict
from grader_service.records.trial import (
    Action,
    Observation,
    Scene,
    StepRecord,
    StepResult,
    TrialRecord,
)

# How the keys of `frames` in a trials.json name a phase: initial_front, final_front, parked_front.
_PHASES: Final = {
    "initial": "first",
    "first": "first",
    "final": "last",
    "last": "last",
    "parked": "parked",
}
# What files beside a trial.json are taken for frames.
_PICTURES: Final = frozenset({".png", ".jpg", ".jpeg", ".webp", ".npy"})
# What a trace may call the distance that `min_distance_to_goal` reads.
_DISTANCES: Final = ("distance", "distance_m", "target_goal_distance_m")


@dataclass(frozen=True, slots=True)
class Submission:
    """One trial that is ready to be sent."""

    name: str
    trial: Mapping[str, Any]
    parts: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Draft:
    """One trial on disk. `build` reads it; it raises AutograderError for a bad one."""

    name: str
    path: Path
    build: Callable[[], Submission]


@dataclass(frozen=True, slots=True)
class Choices:
    """What a whole submission shares. A trial's own rubric beats `rubric`.

    `frames_dir` is where the frames of logs are, when they are not where they were stored.
    """

    run: str
    rubric: str | Mapping[str, Any] | None = None
    judge: str | None = None
    fresh: bool = False
    priority: int = 0
    frames_dir: Path | None = None


def drafts(found: Found, choices: Choices) -> Iterator[Draft]:
    """Return the trials of one input. Raises InputError when what lists them can't be read."""
    if found.kind == "a320":
        yield Draft(found.path.stem, found.path, partial(_a320, found.path, choices))
    elif found.kind == "record":
        yield Draft(found.path.name, found.path, partial(_record, found.path, choices))
    elif found.kind == "trial":
        yield Draft(found.path.name, found.path, partial(_folder, found.path, choices))
    elif found.kind == "log":
        run = read_run(found.path, choices.frames_dir)
        for trial in run.trials:
            name = f"{trial.scene_id}-e{trial.epoch}"
            yield Draft(name, found.path, partial(_logged, name, run, trial, choices))
    else:
        for entry in entries(found.path):
            name = str(entry.get("id", "?"))
            yield Draft(name, found.path, partial(_entry, found.path, entry, choices))


def _common(choices: Choices, kind: str, client_id: str) -> dict[str, Any]:
    return {
        "kind": kind,
        "run": choices.run,
        "client_id": client_id,
        "rubric": choices.rubric,
        "judge": choices.judge,
        "fresh": choices.fresh,
        "priority": choices.priority,
    }


def _a320(path: Path, choices: Choices) -> Submission:
    data = trajectory_bytes(path)
    # Two files may share a name; their content tells them apart.
    client_id = f"{choices.run}/{path.stem}/{hashlib.sha256(data).hexdigest()[:16]}"[-200:]
    return Submission(path.stem, _common(choices, "a320", client_id), {"trajectory": data})


def _record(folder: Path, choices: Choices) -> Submission:
    saved = read_saved(folder).saved
    frames = [
        {"camera": ref.camera, "phase": ref.phase, "part": f"f{number}"}
        for number, ref in enumerate(saved.frames)
    ]
    parts = {"record": read_bytes(folder / "record.json")}
    for path in sorted((folder / "columns").glob("*.npy")):
        parts[f"columns/{path.name}"] = read_bytes(path)
    for number, ref in enumerate(saved.frames):
        parts[f"f{number}"] = read_bytes(_frame_file(folder, ref.sha256))
    client_id = f"{choices.run}/{saved.scene.id}/{saved.record.epoch}/{saved.digest[:16]}"[-200:]
    trial = _common(choices, "robot", client_id) | {
        "scene": {"id": saved.scene.id, "instruction": saved.scene.instruction},
        "epoch": saved.record.epoch,
        "record": "record",
        "frames": frames,
    }
    return Submission(folder.name, trial, parts)


def _frame_file(folder: Path, sha256: str) -> Path:
    matches = sorted((folder / "frames").glob(f"{sha256}.*"))
    if not matches:
        raise InputError(f"the frame {sha256} of {folder} is missing", fix="export the trial again")
    return matches[0]


def _logged(name: str, run: UpstreamRun, trial: LogTrial, choices: Choices) -> Submission:
    record, scene = run.record_of(trial), scene_of(trial)
    stored = run.frames_of(trial, record)
    files = save_trial(record, scene)
    parts = {"record": files.pop("record.json"), **files}
    parts |= {f"f{number}": read_bytes(frame.path) for number, frame in enumerate(stored)}
    # The same whatever the run is called: a harvest finds the trial by it.
    submission = _common(choices, "robot", trial.client_id) | {
        "scene": {"id": scene.id, "instruction": scene.instruction},
        "epoch": trial.epoch,
        "record": "record",
        "frames": [
            {"camera": frame.camera, "phase": frame.phase, "part": f"f{number}"}
            for number, frame in enumerate(stored)
        ],
    }
    return Submission(name, submission, parts)


def _folder(folder: Path, choices: Choices) -> Submission:
    """Return the trial of a folder with a trial.json, its frames named <phase>_<camera>.<ext>."""
    path = folder / TRIAL_PATH
    entry = parse_strict(read_bytes(path), what=str(path))
    if not isinstance(entry, dict):
        raise InputError(f"{path} holds no trial", fix='write {"instruction": "…"}')
    pictures = {
        file.stem: file.name
        for file in sorted(folder.iterdir())
        if file.suffix.lower() in _PICTURES and file.stem.partition("_")[0] in _PHASES
    }
    return _entry(folder, {"id": folder.resolve().name, "frames": pictures, **entry}, choices)


def entries(folder: Path) -> Sequence[Mapping[str, Any]]:
    """Return the trials of a folder's trials.json. Raises InputError."""
    path = folder / "trials.json"
    value = parse_strict(read_bytes(path), what=str(path))
    entries = value.get("trials") if isinstance(value, dict) else value
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InputError(
            f"{path} holds no list of trials",
            fix='write {"trials": [{"id": "…", "instruction": "…", "frames": {…}}, …]}',
        )
    return entries


def _entry(folder: Path, entry: Mapping[str, Any], choices: Choices) -> Submission:
    name = _text(entry, "id")
    scene = Scene(id=name, instruction=_text(entry, "instruction"))
    files = save_trial(_record_of(entry, scene), scene)
    frames = entry.get("frames", {})
    if not isinstance(frames, dict):
        raise InputError(f"{name}: 'frames' is no object", fix='write {"first_front": "a.jpg", …}')
    listed: list[dict[str, str]] = []
    parts = {"record": files.pop("record.json"), **files}
    for number, (key, where) in enumerate(sorted(frames.items())):
        phase, _, camera = key.partition("_")
        if phase not in _PHASES or not camera:
            raise InputError(
                f"{name}: the frame key {key!r} names no phase and camera",
                fix="call it first_<camera>, last_<camera> or parked_<camera>",
            )
        parts[f"f{number}"] = read_bytes(folder / str(where))
        listed.append({"camera": camera, "phase": _PHASES[phase], "part": f"f{number}"})
    trial = _common(choices, "robot", f"{choices.run}/{name}"[-200:]) | {
        "scene": {"id": scene.id, "instruction": scene.instruction},
        "record": "record",
        "frames": listed,
    }
    own = entry.get("rubric") or entry.get("criterion")
    if own is not None:
        trial["rubric"] = own
    return Submission(name, trial, parts)


def _text(entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value.strip():
        raise InputError(
            f"{entry.get('id', 'a trial')}: {key!r} is missing or empty",
            fix=f"give every trial a non-empty {key!r}",
        )
    return value


def _record_of(entry: Mapping[str, Any], scene: Scene) -> TrialRecord:
    """Return a record whose steps are the rows of the entry's trace, if it has one.

    What the entry says of success is the truth to compare with, not part of the record.
    """
    trace = entry.get("trace")
    steps: list[StepRecord] = []
    if trace is not None:
        try:
            names = [str(name) for name in trace["columns"]]
            rows = [[float(value) for value in row] for row in trace["rows"]]
        except (TypeError, KeyError, ValueError) as error:
            raise InputError(
                f"{scene.id}: the trace can't be read ({error!r})",
                fix='write {"columns": [names], "rows": [[numbers], …]}',
            ) from error
        for number, row in enumerate(rows):
            info: dict[str, Any] = dict(zip(names, row, strict=False))
            distance = next((info[key] for key in _DISTANCES if key in info), None)
            if distance is not None:
                info["distance"] = distance
            steps.append(_step(number, scene.instruction, info))
    return TrialRecord(scene_id=scene.id, epoch=0, seed=None, steps=steps)


def _step(number: int, instruction: str, info: Mapping[str, Any]) -> StepRecord:
    observation = Observation(instruction=instruction)
    return StepRecord(
        t=number,
        observation=observation,
        action=Action(data=np.zeros(0)),
        result=StepResult(observation=Observation(), info=info),
    )


def try_build(draft: Draft) -> Submission | AutograderError:
    """Build a draft; return what is wrong with it instead of raising."""
    try:
        return draft.build()
    except AutograderError as error:
        return error
