"""A log sink that saves whole records, so that every scorer can be run on them later.

The harness' own log drops the steps. Sinks can be given from Python only:
`eval(..., sinks=[JsonLogSink("logs"), AutograderSink("records")])`.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from inspect_robots.logging.sink import NullSink

from grader_service.client.folders import write_files
from grader_service.errors import FrameError
from grader_service.plugins.harness.snapshot import frames_of
from grader_service.plugins.harness.voice import Voice
from grader_service.records.canonical import digest
from grader_service.records.npy import npy_bytes
from grader_service.records.saved import FrameRef, Planned, save_trial
from grader_service.records.trial import instruction_told

_MEDIA_TYPE: Final = "application/x-npy"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")


class AutograderSink(NullSink):
    """Saves each trial, errored ones included, to a folder of its own below `directory`.

    Its name is <task>-<8 hex digits of the evaluation>/<scene>-e<epoch>. `score`, `grade` and
    `submit` read it. With `task`, the one that is evaluated, it also says what was planned: the
    epochs, their reducer and the scorers. What can't be saved is said on stderr; the run goes on.
    """

    def __init__(self, directory: str | Path, *, task: Any = None) -> None:
        self._directory = Path(directory).absolute()
        self._planned = _planned(task)
        self._scenes: Mapping[str, Any] = {}
        self._folder = self._directory
        self._voice = Voice()

    def bind_scenes(self, scenes: Sequence[Any]) -> None:
        """Take the scenes: records name theirs only."""
        self._scenes = {scene.id: scene for scene in scenes}

    def on_eval_start(self, spec: Any) -> None:
        """Choose a folder that no other evaluation has."""
        self._folder = self._directory / f"{_safe(spec.task)}-{uuid4().hex[:8]}"

    def on_trial_end(self, record: Any) -> None:
        """Save a trial, whole or not at all."""
        name = f"{_safe(record.scene_id)}-e{record.epoch}"
        unfinished = self._folder / f".{name}.tmp"
        try:
            write_files(unfinished, self._files(record))
            unfinished.rename(self._folder / name)
        except Exception as error:  # noqa: BLE001  # a raising sink would cost the whole log
            shutil.rmtree(unfinished, ignore_errors=True)
            self._voice.say(f"{name} is not saved: {error}")

    def _files(self, record: Any) -> dict[str, bytes]:
        scene = self._scenes[record.scene_id]
        refs: list[FrameRef] = []
        files: dict[str, bytes] = {}
        for frame in frames_of(record, max_cameras=None):
            try:
                data = npy_bytes(frame.load())
            except FrameError as error:
                self._voice.say(f"{record.scene_id}-e{record.epoch} is saved without it: {error}")
                continue
            sha256 = digest(data)
            refs.append(FrameRef(frame.camera, frame.phase, sha256, _MEDIA_TYPE, len(data)))
            files[f"frames/{sha256}.npy"] = data
        return files | save_trial(
            record,
            scene,
            frames=refs,
            instruction_used=instruction_told(record, scene)[0],
            planned=self._planned,
        )


def _planned(task: Any) -> Planned:
    if task is None:
        return Planned()
    spec = task.epoch_spec
    return Planned(spec.count, spec.reducer, tuple(scorer.name for scorer in task.scorers))


def _safe(name: str) -> str:
    """Return a file's name for any text; other texts get other names."""
    safe = _UNSAFE.sub("-", name).lstrip(".")[:80]
    return safe if safe == name else f"{safe}-{digest(name.encode(errors='replace'))[:8]}"
