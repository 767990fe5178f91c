"""Submit a trial: check it whole, store its blobs, then one transaction. Nothing half-stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from grader_service.errors import ConflictError, FrameError, InputError, RecordError
from grader_service.grading.service import Service
from grader_service.judging.frames import inspect_frame
from grader_service.judging.rubric import Rubric, rubric_of_kind
from grader_service.records.canonical import digest, digest_of
from grader_service.records.judged import definitive_verdict
from grader_service.records.saved import (
    FrameRef,
    SavedTrial,
    load_trial,
    parse_record_json,
    save_trial,
    with_frames,
)
from grader_service.records.trajectory import parse_trajectory
from grader_service.records.trial import Scene, TrialRecord, instruction_told
from grader_service.records.verdict import Decision
from grader_service.scoring.a320 import score_trajectory
from grader_service.storage import gradings, trials, verdicts
from grader_service.storage.database import Unit

# As long as the database's columns for names.
MAX_NAME: Final = 200


@dataclass(frozen=True, slots=True)
class FrameUpload:
    """One frame as it was uploaded; `phase` is first, last or parked."""

    camera: str
    phase: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class RobotSubmission:
    """A robot trial. Without a record, one without steps is made from the scene."""

    run: str
    scene: Scene
    epoch: int
    frames: Sequence[FrameUpload]
    record: bytes | None = None
    columns: Mapping[str, bytes] = field(default_factory=dict)
    rubric: Any = None
    judge: str | None = None
    client_id: str | None = None
    # From -10 to 10; higher first among the trials that wait for a judge.
    priority: int = 0
    # Ask the judge even where it has answered the same question before.
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class A320Submission:
    """A cockpit run: its trajectory's bytes."""

    run: str
    trajectory: bytes = field(repr=False)
    rubric: Any = None
    judge: str | None = None
    client_id: str | None = None
    # From -10 to 10; higher first among the trials that wait for a judge.
    priority: int = 0
    # Ask the judge even where it has answered the same question before.
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Submitted:
    """The trial's id, and whether this submission made it or found it."""

    id: str
    created: bool


@dataclass(frozen=True, slots=True)
class _Checked:
    """A submission that passed every check, ready to be stored."""

    trial: trials.NewTrial
    rubric: Rubric
    blobs: Sequence[bytes]
    adopted: tuple[str, Decision] | None = None


def submit(service: Service, submission: RobotSubmission | A320Submission) -> Submitted:
    """Store a trial and its queued grading.

    Raises InputError (422) for what is wrong with it, ConflictError (409) when its client id is
    taken by other content, UnavailableError (503) when the stores are down.
    """
    judge = service.judges.resolve(submission.judge)
    if isinstance(submission, RobotSubmission):
        checked = _check_robot(service, submission)
    else:
        checked = _check_a320(service, submission)
    known = _known(service, checked.trial)
    if known is not None:
        return known
    service.blobs.put_all(checked.blobs)
    try:
        with service.database.write() as unit:
            trials.put_rubric(
                unit,
                digest=checked.rubric.digest,
                rubric_id=checked.rubric.id,
                body=checked.rubric.to_dict(),
            )
            trial_id = trials.add(unit, checked.trial)
            if checked.adopted is not None:
                _adopt(unit, trial_id, checked)
            else:
                gradings.enqueue(
                    unit,
                    trial_id=trial_id,
                    tenant=checked.trial.tenant,
                    run=checked.trial.run,
                    rubric_digest=checked.rubric.digest,
                    judge=judge.name if judge else (submission.judge or ""),
                    judge_digest=judge.digest if judge else "",
                    fresh=submission.fresh,
                    priority=submission.priority,
                )
    except trials.ClientIdTakenError:
        # Somebody else submitted under this id since we looked.
        known = _known(service, checked.trial)
        if known is None:
            raise
        return known
    return Submitted(trial_id, created=True)


def _known(service: Service, trial: trials.NewTrial) -> Submitted | None:
    if trial.client_id is None:
        return None
    with service.database.read() as unit:
        row = trials.by_client_id(unit, trial.client_id, tenant=trial.tenant)
    if row is None:
        return None
    if row.content_digest != trial.content_digest:
        raise ConflictError(
            f"the client id {trial.client_id!r} is taken by other content (trial {row.id})",
            fix="use a client id that is new for each trial; repeat one only with the same content",
        )
    return Submitted(row.id, created=False)


def _adopt(unit: Unit, trial_id: str, checked: _Checked) -> None:
    """Take over the verdict that came with the record, without a call."""
    assert checked.adopted is not None
    source, decision = checked.adopted
    gradings.record_adopted(
        unit,
        trial_id=trial_id,
        tenant=checked.trial.tenant,
        run=checked.trial.run,
        rubric_digest=checked.rubric.digest,
        verdict=str(decision.verdict),
    )
    verdicts.append(unit, trial_id=trial_id, source=source, decision=decision)


def _check_robot(service: Service, submission: RobotSubmission) -> _Checked:
    refs = _frame_refs(submission.frames)
    if submission.record is None:
        files = save_trial(
            TrialRecord(scene_id=submission.scene.id, epoch=submission.epoch, seed=None),
            submission.scene,
            frames=refs,
        )
        record, columns = files.pop("record.json"), files
    else:
        record = _with_frames(submission.record, refs)
        columns = {f"columns/{sha}.npy": data for sha, data in submission.columns.items()}
    saved = _load(record, columns)
    if saved.scene.id != submission.scene.id:
        raise RecordError(
            f"the record is of scene {saved.scene.id!r}, not {submission.scene.id!r}",
            fix="send each trial with its own record",
        )
    own = saved.scene.metadata.get("rubric")
    has_own = isinstance(own, str) and own.strip()
    rubric = rubric_of_kind(own if has_own else submission.rubric, kind="frames")
    definitive = definitive_verdict(saved.record)
    instruction, found_in = instruction_told(saved.record, saved.scene, used=saved.instruction_used)
    frames = [asdict(frame) for frame in refs]
    return _Checked(
        trial=trials.NewTrial(
            tenant=service.tenant,
            run=submission.run,
            client_id=submission.client_id,
            content_digest=digest_of(
                [submission.run, saved.digest, frames, rubric.digest, submission.judge]
            ),
            kind="robot",
            scene_id=saved.scene.id,
            epoch=saved.record.epoch,
            instruction=instruction,
            rubric_digest=rubric.digest,
            record_digest=saved.digest,
            columns=[digest(data) for data in columns.values()],
            frames=frames,
            instruction_from=found_in,
        ),
        rubric=rubric,
        blobs=[*(frame.data for frame in submission.frames), *columns.values(), record],
        adopted=None if definitive is None else (definitive[0], Decision.graded(definitive[1])),
    )


def _frame_refs(frames: Sequence[FrameUpload]) -> list[FrameRef]:
    refs: list[FrameRef] = []
    for frame in frames:
        where = f"{frame.phase} frame of camera {frame.camera!r}"
        try:
            info = inspect_frame(frame.data)
        except FrameError as error:
            raise FrameError(f"{where}: {error.message}", fix=error.fix) from error
        if any((ref.camera, ref.phase) == (frame.camera, frame.phase) for ref in refs):
            raise FrameError(f"the {where} comes twice", fix="send one frame per camera and phase")
        refs.append(
            FrameRef(
                camera=frame.camera,
                phase=frame.phase,  # type: ignore[arg-type]  # checked at the edge
                sha256=info.sha256,
                media_type=info.media_type,
                size=len(frame.data),
            )
        )
    return refs


def _with_frames(record: bytes, refs: Sequence[FrameRef]) -> bytes:
    """Return the record with its frames listed; the ones it lists itself must be these."""
    order = [(ref.camera, ref.phase) for ref in parse_record_json(record).frames]
    known = {key: position for position, key in enumerate(order)}
    ordered = sorted(refs, key=lambda ref: known.get((ref.camera, ref.phase), len(known)))
    return with_frames(record, ordered)


def _load(record: bytes, columns: Mapping[str, bytes]) -> SavedTrial:
    files = {"record.json": record, **columns}

    def read(path: str) -> bytes:
        try:
            return files[path]
        except KeyError:
            raise RecordError(
                f"the record needs {path}, which was not sent",
                fix="send every column as a part of that name",
            ) from None

    return load_trial(read, check=True)


def _check_a320(service: Service, submission: A320Submission) -> _Checked:
    records = parse_trajectory(submission.trajectory)
    card = score_trajectory(records)
    if len(card.scenario_id) > MAX_NAME:
        raise InputError(
            f"the scenario's id has {len(card.scenario_id)} characters",
            fix=f"use at most {MAX_NAME}",
        )
    rubric = rubric_of_kind(submission.rubric, kind="bundle")
    sha256 = digest(submission.trajectory)
    return _Checked(
        trial=trials.NewTrial(
            tenant=service.tenant,
            run=submission.run,
            client_id=submission.client_id,
            content_digest=digest_of([submission.run, sha256, rubric.digest, submission.judge]),
            kind="a320",
            scene_id=card.scenario_id,
            epoch=0,
            instruction=_task_prompt(records),
            rubric_digest=rubric.digest,
            record_digest=sha256,
            columns=[],
            frames=[],
        ),
        rubric=rubric,
        blobs=[submission.trajectory],
    )


def _task_prompt(records: Sequence[Mapping[str, Any]]) -> str | None:
    for record in records:
        scenario = record.get("scenario") if record.get("type") == "meta" else None
        if isinstance(scenario, Mapping):
            prompt = scenario.get("task_prompt")
            return prompt if isinstance(prompt, str) else None
    return None
