"""Runs of `inspect_robots` that were made without this project: their logs and stored frames.

A log keeps no steps. What it and its side-cars tell becomes the record: actions, how the trial
ended, judgements, messages and metadata; rewards, states and distances are lost.
"""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from grader_service.client.disk import read_bytes
from grader_service.client.harvest.log_file import LogFile, read_log
from grader_service.client.harvest.log_trials import LogTrial, trials_of
from grader_service.errors import InputError
from grader_service.records.judged import definitive_verdict
from grader_service.records.strict_json import parse_strict
from grader_service.records.trial import (
    Action,
    Event,
    Observation,
    Scene,
    StepRecord,
    StepResult,
    TrialRecord,
)

# Of each phase, by name, as the harness' own grader has it.
MAX_CAMERAS: Final = 4
# How trials end that the embodiment or the operator ended; all others were cut off.
_TERMINATIONS: Final = frozenset({"success", "failure", "operator_end"})
_FRAME: Final = re.compile(r"(?P<where>.+)_(?P<t>[0-9]{6,})\.npy")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class StoredFrame:
    """A frame that the harness stored: which camera and phase, and its file."""

    camera: str
    phase: Literal["first", "last"]
    path: Path


@dataclass(frozen=True)
class UpstreamRun:
    """The trials of a log that can be submitted. `frames_dir` is where its frames are now."""

    log: LogFile
    frames_dir: Path | None

    @property
    def trials(self) -> list[LogTrial]:
        """The trials that ran to their end. Raises InputError where a grader submitted them."""
        trials = trials_of(self.log)
        if any(trial.client_id != trial.own_id for trial in trials):
            raise InputError(
                f"the trials of {self.log.path} were submitted while they ran",
                fix=f"autograder harvest {self.log.path}; what could not be sent then waits for "
                "autograder flush",
            )
        return trials

    def record_of(self, trial: LogTrial) -> TrialRecord:
        """Return what is known of a trial. Raises InputError for a damaged action side-car."""
        record = trial.record()
        reason = record.termination_reason
        record.terminated = reason in _TERMINATIONS
        record.truncated = reason is not None and not record.terminated
        record.steps = self._steps(trial, record)
        messages = _entry(trial, "operator_messages") or ()
        record.events = [
            Event("operator_message", int(message["t"]), dict(message)) for message in messages
        ] + list(record.events)
        record.policy_transcript = _entry(trial, "policy_transcripts")
        return record

    def _steps(self, trial: LogTrial, record: TrialRecord) -> list[StepRecord]:
        """Return steps with the actions that the harness stored beside the log, if it did."""
        stored = record.metadata.get("actions")
        path = self.log.path.parent / stored if isinstance(stored, str) else None
        if path is None or not path.is_file():
            return []
        header, *lines = read_bytes(path).splitlines() or [b"{}"]
        parse_strict(header, what=str(path))
        actions = [parse_strict(line, what=str(path)) for line in lines]
        last = len(actions) - 1
        try:
            return [
                StepRecord(
                    t=int(action["t"]),
                    observation=Observation(instruction=_instruction(trial)),
                    action=Action(np.asarray(action["action"], dtype=np.float64)),
                    result=StepResult(
                        observation=Observation(),
                        terminated=record.terminated and number == last,
                        truncated=record.truncated and number == last,
                        termination_reason=record.termination_reason if number == last else None,
                    ),
                )
                for number, action in enumerate(actions)
            ]
        except (TypeError, KeyError, ValueError) as error:
            raise InputError(
                f"{path} holds no actions ({error!r})", fix="move it away to do without actions"
            ) from error

    def frames_of(self, trial: LogTrial, record: TrialRecord) -> list[StoredFrame]:
        """Return the first and last frame of each camera, by name.

        Raises InputError where there are none, unless the trial brings its verdict along.
        """
        found = self._frames.get((trial.scene_id, trial.epoch), {})
        if not found and definitive_verdict(record) is None:
            raise self._no_frames(trial)
        frames = []
        for camera, by_step in sorted(found.items())[:MAX_CAMERAS]:
            first, last = min(by_step), max(by_step)
            frames.append(StoredFrame(camera, "first", by_step[first]))
            if last > first:
                frames.append(StoredFrame(camera, "last", by_step[last]))
        return frames

    @cached_property
    def _frames(self) -> Mapping[tuple[str, int], Mapping[str, Mapping[int, Path]]]:
        """The stored frames by trial, camera and step."""
        trials = {
            _stored_name(f"{sample['scene_id']}-e{epoch}"): (sample["scene_id"], epoch)
            for sample in self.log.value["samples"]
            for epoch in range(len(sample["epochs"]))
        }
        found: dict[tuple[str, int], dict[str, dict[int, Path]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        for path in self._stored_files():
            match = _FRAME.fullmatch(path.name)
            if match is None:
                continue
            # A scene's name may begin as another's does; cameras may have any name.
            owners = [name for name in trials if match["where"].startswith(f"{name}_")]
            if owners:
                owner = max(owners, key=len)
                camera = match["where"].removeprefix(f"{owner}_")
                found[trials[owner]][camera][int(match["t"])] = path
        return found

    def _stored_files(self) -> Iterator[Path]:
        told = {self._told(sample) for sample in self.log.value["samples"]}
        for folder in sorted(filter(None, map(self._folder, told))):
            yield from sorted(folder.glob("*.npy"))

    def _told(self, sample: Mapping[str, Any]) -> str | None:
        """Return where the log says that the frames of a scene were stored."""
        # Of a run that was resumed, each scene tells for itself.
        told = sample.get("frames_dir") or self.log.value["stats"].get("frames_dir")
        return told if isinstance(told, str) else None

    def _folder(self, told: str | None) -> Path | None:
        """Return where frames are: where the user says, where they were, or beside the log."""
        places: list[Path] = []
        if self.frames_dir is not None:
            places = [*([self.frames_dir / Path(told).name] if told else []), self.frames_dir]
        elif told is not None:
            # A relative path is one from where the run was started.
            places = [Path(told), self.log.path.parent / Path(*Path(told).parts[-2:])]
        return next((place for place in places if place.is_dir()), None)

    def _no_frames(self, trial: LogTrial) -> InputError:
        where = f"scene {trial.scene_id!r}, epoch {trial.epoch} of {self.log.path}"
        told = self._told(trial.scene)
        folder = self._folder(told)
        if folder is not None:
            return InputError(
                f"{folder} has no frames of {where}",
                fix="name the folder that has them: --frames-dir DIR",
            )
        if told is None:
            return InputError(
                f"there are no frames of {where}: the run stored none",
                fix="run it with --store-frames, or with --grader autograder",
            )
        return InputError(
            f"the frames of {where} are not at {told}",
            fix="say where they are now: --frames-dir DIR",
        )


def read_run(path: Path, frames_dir: Path | None) -> UpstreamRun:
    """Read a log. Raises InputError."""
    return UpstreamRun(read_log(path), frames_dir)


def scene_of(trial: LogTrial) -> Scene:
    """Return what the log tells of a trial's scene. Raises InputError without an instruction."""
    return Scene(trial.scene_id, _instruction(trial), metadata=trial.scene["scene_metadata"])


def _instruction(trial: LogTrial) -> str:
    instruction = trial.scene.get("instruction")
    if not isinstance(instruction, str) or not instruction.strip():
        raise InputError(
            f"{trial.log.path} does not tell the instruction of scene {trial.scene_id!r}",
            fix="submit its frames as a folder of trials",
        )
    return instruction


def _entry(trial: LogTrial, field: str) -> Any:
    """Return the trial's entry in a list that older logs lack."""
    entries = trial.scene.get(field) or ()
    return entries[trial.epoch] if trial.epoch < len(entries) else None


def _stored_name(text: str) -> str:
    """Return how the harness writes a name in the names of files."""
    safe = _UNSAFE.sub("-", text)
    return safe if safe == text else f"{safe}-{zlib.crc32(text.encode()):08x}"
