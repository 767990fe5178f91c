"""Trials as the stub has them: checked as the service checks them, with the verdict they get."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final
from uuid import uuid4

from grader_service.client.forms import (
    A320TrialIn,
    RobotTrialIn,
    one_client_id,
    only_parts,
    part_named,
    validated,
)
from grader_service.client.types import Trial as TrialAnswer
from grader_service.errors import FrameError, InputError, RecordError
from grader_service.graders.trial import Trial, new_verdict, robot_trial, submitted_files
from grader_service.records.canonical import digest, digest_of
from grader_service.records.saved import save_trial
from grader_service.records.strict_json import parse_strict
from grader_service.records.trajectory import parse_trajectory
from grader_service.records.trial import Scene, TrialRecord
from grader_service.records.verdict import Decision, Verdict

_COLUMN: Final = "columns/"


@dataclass(repr=False)
class Received:
    """A trial that the stub has taken.

    `json` is its part `trial`, `parts` are the others, `sent` is how often it came. `trial` is
    what a grader would see of it: `trial.record` has its steps.
    """

    json: Mapping[str, Any]
    parts: Mapping[str, bytes]
    client_id: str | None
    trial: Trial
    files: Mapping[str, bytes]
    content: str
    verdict: Verdict | None = None
    # It is done from `due` on, by time.monotonic, unless the test keeps its verdict back.
    due: float = 0.0
    held: bool = False
    sent: int = 1
    created_at: float = field(default_factory=time.time)

    def __repr__(self) -> str:
        return f"<Received {self.trial.name}, run {self.run}, client id {self.client_id}>"

    @property
    def id(self) -> str:
        return self.trial.id

    @property
    def run(self) -> str:
        return str(self.json["run"])

    @property
    def scene_id(self) -> str:
        if self.trial.scene is not None:
            return self.trial.scene.id
        return self.trial.name

    @property
    def epoch(self) -> int:
        return int(self.trial.record.epoch) if self.trial.kind == "robot" else 0

    @cached_property
    def frames(self) -> dict[tuple[str, str], bytes]:
        """The frames' bytes by (phase, camera)."""
        return {(one.phase, one.camera): one.data for one in self.trial.evidence()}

    def answer(self, *, done: bool) -> TrialAnswer:
        """Return what the service says of a trial that is done or still queued."""
        verdict = self.verdict if done else None
        base = f"/v1/trials/{self.id}"
        return TrialAnswer(
            id=self.id,
            run=self.run,
            kind=self.trial.kind,
            client_id=self.client_id,
            scene_id=self.scene_id,
            epoch=self.epoch,
            instruction=self.trial.instruction()[0],
            state="done" if done else "queued",
            waiting_for=None,
            outcome=verdict.outcome if verdict else None,
            verdict=verdict.verdict if verdict else None,
            reason=verdict.reason if verdict else None,
            source=verdict.source if verdict else None,
            note=verdict.note if verdict else None,
            needs_review=False,
            created_at=self.created_at,
            links={
                "self": base,
                "record": f"{base}/record",
                "verdicts": f"{base}/verdicts",
                "scorecard": f"{base}/scorecard",
                "run": f"/v1/runs/{self.run}",
            },
        )


def receive(parts: dict[str, bytes], idempotency_key: str | None) -> Received:
    """Return the trial that a body's parts hold. Raises what the service refuses it for."""
    if "trial" not in parts:
        raise InputError("the part 'trial' is missing", fix="send it as JSON")
    value = parse_strict(parts["trial"], what="the part 'trial'")
    kind = value.get("kind") if isinstance(value, dict) else None
    if kind == "a320":
        form: RobotTrialIn | A320TrialIn = validated(A320TrialIn, value, what="trial")
    elif kind == "robot":
        form = validated(RobotTrialIn, value, what="trial")
    else:
        raise InputError(f"unknown kind {kind!r}", fix="set kind to 'robot' or 'a320'")
    client_id = one_client_id(form.client_id, idempotency_key)
    if isinstance(form, A320TrialIn):
        trial, files = _a320(parts)
    else:
        trial, files = _robot(form, parts)
    rubric = trial.rubric(form.rubric)
    frames = [[ref.camera, ref.phase, ref.sha256] for ref in trial.frames]
    return Received(
        json=value,
        parts={name: data for name, data in parts.items() if name != "trial"},
        client_id=client_id,
        trial=trial,
        files=files,
        content=digest_of([form.run, trial.record_digest, frames, rubric.digest, form.judge]),
    )


def scripted(word: str, kind: str, note: str | None) -> Verdict:
    """Return the verdict that a script's word means. Raises ValueError for another word.

    success, failure, abstain, or "abstained: CODE" and "ungraded: CODE" with a reason code.
    """
    outcome, _, reason = (part.strip() for part in word.partition(":"))
    if outcome in ("success", "failure") and not reason:
        decision = Decision.graded("success" if outcome == "success" else "failure")
    elif outcome in ("abstain", "abstained"):
        decision = Decision.abstained(reason or "judge_abstained")
    elif outcome == "ungraded":
        decision = Decision.ungraded(reason or "provider_unavailable")
    else:
        raise ValueError(
            f"{word!r} is no verdict: use success, failure, abstain, "
            "'abstained: CODE', 'ungraded: CODE' or 'refused: TEXT'"
        )
    return new_verdict("vlm" if kind == "robot" else "llm_judge", decision, note=note, by="script")


def _a320(parts: Mapping[str, bytes]) -> tuple[Trial, dict[str, bytes]]:
    only_parts(parts, {"trial", "trajectory"})
    data = part_named(parts, "trajectory", "the JSONL of the run")
    record = parse_trajectory(data)
    trial = Trial(id=str(uuid4()), kind="a320", record=record, record_digest=digest(data))
    return trial, {"trajectory.jsonl": data}


def _robot(form: RobotTrialIn, parts: Mapping[str, bytes]) -> tuple[Trial, dict[str, bytes]]:
    columns = {name for name in parts if name.startswith(_COLUMN)} if form.record else set()
    named = {"trial", *(frame.part for frame in form.frames), *columns}
    only_parts(parts, named | ({form.record} if form.record else set()))
    for frame in form.frames:
        part_named(parts, frame.part, f"the {frame.phase} frame of {frame.camera!r}")
    seen = [(frame.phase, frame.camera) for frame in form.frames]
    for phase, camera in seen:
        if seen.count((phase, camera)) > 1:
            raise FrameError(
                f"the {phase} frame of camera {camera!r} comes twice",
                fix="send one frame per camera and phase",
            )
    sent = {name: data for name, data in parts.items() if name != "trial"}
    if form.record:
        part_named(parts, form.record, "the record")
    else:
        scene = Scene(form.scene.id, form.scene.instruction, metadata=form.scene.metadata)
        sent |= save_trial(TrialRecord(scene.id, form.epoch, None), scene)
    name = form.record or "record.json"
    files = submitted_files(form.model_dump() | {"record": name}, sent)
    trial = robot_trial(_reader(files), files, id=str(uuid4()))
    # A record may lie in columns that did not come, or are others: reading it says so.
    list(trial.record.steps)
    list(trial.record.events)
    if trial.scene is not None and trial.scene.id != form.scene.id:
        raise RecordError(
            f"the record is of scene {trial.scene.id!r}, not {form.scene.id!r}",
            fix="send each trial with its own record",
        )
    return trial, files


def _reader(files: Mapping[str, bytes]) -> Any:
    def read(path: str) -> bytes:
        try:
            return files[path]
        except KeyError:
            raise RecordError(
                f"the record needs {path}, which was not sent",
                fix="send every column as a part of that name",
            ) from None

    return read
