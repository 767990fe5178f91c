"""Grading of a live record of the harness, between the end of its trial and the scorers.

Nothing here raises: a trial that can't be graded says so on its record, and the run goes on.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

from grader_service.graders.folder import TrialFolder, folder_name
from grader_service.graders.trial import (
    Trial,
    TrialGrader,
    new_verdict,
    robot_trial,
    submitted_files,
)
from grader_service.plugins.harness.snapshot import pack, take_snapshot
from grader_service.records.judged import apply_verdict
from grader_service.records.trial import Event, TrialRecord
from grader_service.records.verdict import Decision, Verdict


def grade(grader: TrialGrader, record: Any, scene: Any, *, keep: Path | None = None) -> None:
    """Have a grader write its verdict onto a record, or why there is none.

    With `keep`, the trial is saved to a folder below it as well, with verdict and receipt.
    """
    try:
        trial, files = _trial(record, scene)
        verdict = trial.adopted() or grader.verdict(trial)
    except KeyboardInterrupt:
        # Passed on, it would cost the harness its log of every trial so far.
        verdict, files = _ungraded("timeout", "interrupted before the verdict came"), {}
    except EOFError:
        # Nobody answers at the terminal.
        return
    except Exception as error:  # noqa: BLE001  (a bug must end in a reason, not in a lost log)
        verdict, files = _ungraded("internal", str(error) or repr(error)), {}
    if verdict is None:
        return
    if verdict.outcome == "ungraded":
        _say(grader.name, f"{verdict.reason}: {verdict.note}; trial left ungraded")
    _write_onto(record, verdict)
    if keep is not None and files:
        _keep(grader.name, keep, trial, files, verdict)


def _trial(record: Any, scene: Any) -> tuple[Trial, dict[str, bytes]]:
    packed = pack(
        take_snapshot(record, scene, uuid4().hex), run="in process", rubric=None, judge=None
    )
    if packed.left_out:
        _say(f"{scene.id}, epoch {record.epoch}", f"left out: {'; '.join(packed.left_out)}")
    files = submitted_files(packed.trial, packed.parts)
    return robot_trial(files.__getitem__, files, id=str(uuid4())), files


def _write_onto(record: Any, verdict: Verdict) -> None:
    judged = apply_verdict(record, verdict)
    record.operator_judgement = judged.operator_judgement
    record.operator_note = judged.operator_note
    record.metadata.clear()
    record.metadata.update(judged.metadata)
    frames = (verdict.receipt or {}).get("frames") or ()
    if verdict.outcome == "graded" and any(frame["phase"] == "parked" for frame in frames):
        record.metadata["graded_frames"] = "parked"
    for event in judged.events[len(record.events) :]:
        record.events.append(_event_class(record)(event.kind, event.t, event.data))


def _event_class(record: Any) -> Any:
    """Return the class of a record's own events, which its harness may tell from ours."""
    transcript = sys.modules.get("inspect_robots.transcript")
    return Event if isinstance(record, TrialRecord) or transcript is None else transcript.Event


def _keep(name: str, keep: Path, trial: Trial, files: dict[str, bytes], verdict: Verdict) -> None:
    try:
        folder = keep / folder_name(f"{trial.record.scene_id}-e{trial.record.epoch}", trial.id)
        TrialFolder.create(folder, files).add(verdict)
    except Exception as error:  # noqa: BLE001  (a full disk must not cost the harness its log)
        _say(name, f"the trial is not kept: {error}")


def _ungraded(reason: str, note: str) -> Verdict:
    return new_verdict("service", Decision.ungraded(reason), note=note)


def _say(who: str, text: str) -> None:
    print(f"grader: {who}: {text}", file=sys.stderr)
