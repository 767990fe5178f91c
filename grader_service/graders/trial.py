"""One trial as graders see it, wherever it lies, and the verdicts that they give."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal, Protocol, runtime_checkable
from uuid import uuid4

from grader_service.errors import RecordError
from grader_service.judging.evidence import Evidence
from grader_service.judging.frames import inspect_frame
from grader_service.judging.receipt import Case
from grader_service.judging.rubric import Rubric, rubric_of_kind
from grader_service.records.canonical import digest, digest_of
from grader_service.records.judged import definitive_verdict
from grader_service.records.saved import (
    RECORD_PATH,
    FrameRef,
    load_trial,
    parse_record_json,
    with_frames,
)
from grader_service.records.trial import Scene, instruction_told
from grader_service.records.verdict import DEFINITIVE_SOURCES, Decision, Verdict

Kind = Literal["robot", "a320"]
FRAMES: Final = "frames/"


@dataclass(frozen=True)
class Trial:
    """A trial of a robot, or of a cockpit (`a320`: then `record` holds its trajectory's records).

    `read` gives a file by its path relative to `folder`, which is None for a trial that is not on
    disk; `frame_paths` are those of the frames by sha256. `verdicts` are those it has, oldest
    first. `own_rubric` is what whoever made the trial wants it judged by.
    """

    id: str
    kind: Kind
    record: Any
    record_digest: str
    scene: Scene | None = None
    frames: Sequence[FrameRef] = ()
    frame_paths: Mapping[str, str] = field(default_factory=dict)
    read: Callable[[str], bytes] = field(default=lambda _: b"", repr=False)
    instruction_used: str | None = None
    own_rubric: Any = None
    verdicts: Sequence[Verdict] = ()
    folder: Path | None = None

    @property
    def name(self) -> str:
        """What people call it."""
        if self.scene is None:
            return f"{_scenario(self.record).get('id', 'a cockpit run')}"
        return f"{self.scene.id}, epoch {self.record.epoch}"

    def instruction(self) -> tuple[str, str]:
        """Return what the robot or the agent was told, and where that was found."""
        if self.scene is None:
            return str(_scenario(self.record).get("task_prompt") or ""), "scenario"
        return instruction_told(self.record, self.scene, used=self.instruction_used)

    def rubric(self, asked_for: Any = None) -> Rubric:
        """Return what it is judged by. Raises RubricError, and InputError for the wrong kind.

        Its scene's rubric, else its own, else the one `asked_for`, else the one of its newest
        receipt, else the default.
        """
        wanted = self.own_rubric or asked_for or self._rubric_of_before()
        in_scene = None if self.scene is None else self.scene.metadata.get("rubric")
        if isinstance(in_scene, str) and in_scene.strip():
            wanted = in_scene
        return rubric_of_kind(wanted, kind="frames" if self.kind == "robot" else "bundle")

    def evidence(self) -> list[Evidence]:
        """Return its frames. Raises RecordError for one that is not here as it was recorded."""
        return [
            Evidence(ref.camera, ref.phase, ref.sha256, self._frame(ref)) for ref in self.frames
        ]

    def case(self, rubric: Rubric) -> Case:
        """Return what the next receipt says of this trial."""
        receipts = self._receipts()
        return Case(
            trial_id=self.id,
            record_digest=self.record_digest,
            round=1 + max((receipt["round"] for receipt in receipts), default=-1),
            rubric=rubric,
            previous_receipt=digest_of(receipts[-1]) if receipts else None,
        )

    def adopted(self) -> Verdict | None:
        """Return the verdict that the record brings along, so that nobody is asked."""
        own = None if self.scene is None else definitive_verdict(self.record)
        return None if own is None else new_verdict(own[0], Decision.graded(own[1]))

    def _receipts(self) -> list[Mapping[str, Any]]:
        return [verdict.receipt for verdict in self.verdicts if verdict.receipt is not None]

    def _rubric_of_before(self) -> Any:
        receipts = self._receipts()
        return receipts[-1]["rubric"]["text"] if receipts else None

    def _frame(self, ref: FrameRef) -> bytes:
        path = self.frame_paths.get(ref.sha256)
        data = None if path is None else self.read(path)
        if data is None or digest(data) != ref.sha256:
            raise RecordError(
                f"the {ref.phase} frame of camera {ref.camera!r} is missing, or another one",
                fix="copy or export the trial again, with its folder frames/",
            )
        return data


def robot_trial(read: Callable[[str], bytes], names: Iterable[str], **rest: Any) -> Trial:
    """Return the robot trial whose files have these relative paths; `rest` is of the Trial.

    Raises RecordError.
    """
    saved = load_trial(read)
    return Trial(
        kind="robot",
        record=saved.record,
        record_digest=saved.digest,
        scene=saved.scene,
        frames=saved.frames,
        frame_paths={PurePosixPath(name).stem: name for name in names if name.startswith(FRAMES)},
        read=read,
        instruction_used=saved.instruction_used,
        **rest,
    )


def submitted_files(trial: Mapping[str, Any], parts: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files of a robot trial as it would be submitted: its part `trial` and the others.

    Raises FrameError for a frame that is none, RecordError for a record of other frames.
    """
    files = dict(parts)
    record = files.pop(trial["record"])
    refs = []
    for frame in trial["frames"]:
        data = files.pop(frame["part"])
        info = inspect_frame(data)
        size = len(data)
        refs.append(FrameRef(frame["camera"], frame["phase"], info.sha256, info.media_type, size))
        files[f"{FRAMES}{info.sha256}.{_suffix(info.media_type)}"] = data
    listed = [(ref.camera, ref.phase) for ref in parse_record_json(record).frames]
    order = {key: position for position, key in enumerate(listed)}
    refs.sort(key=lambda ref: order.get((ref.camera, ref.phase), len(order)))
    return {RECORD_PATH: with_frames(record, refs), **files}


def _suffix(media_type: str) -> str:
    kind, _, name = media_type.partition("/")
    return {"jpeg": "jpg"}.get(name, name) if kind == "image" else "npy"


@runtime_checkable
class TrialGrader(Protocol):
    """A grader that can also grade what lies on disk: `autograder grade` works with any such."""

    @property
    def name(self) -> str: ...

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of trials that it grades."""
        ...

    def has_graded(self, verdicts: Sequence[Verdict]) -> bool:
        """Say whether a trial with these verdicts needs no other one of this grader."""
        ...

    def verdict(self, trial: Trial) -> Verdict | None:
        """Return the verdict on a trial, None where the grader declines to give one.

        Raises AutograderError for a trial that can't be shown to it.
        """
        ...


def new_verdict(
    source: str,
    decision: Decision,
    *,
    note: str | None = None,
    by: str | None = None,
    receipt: Mapping[str, Any] | None = None,
) -> Verdict:
    """Return a verdict of now."""
    return Verdict(
        id=str(uuid4()),
        source=source,
        outcome=decision.outcome,
        verdict=decision.verdict,
        reason=decision.reason,
        at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        note=note,
        by=by,
        receipt=receipt,
    )


def has_definitive(verdicts: Sequence[Verdict]) -> bool:
    """Say whether a verdict came with the record: nobody is asked about such a trial."""
    return any(verdict.source in DEFINITIVE_SOURCES for verdict in verdicts)


def _scenario(records: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    for record in records:
        scenario = record.get("scenario") if record["type"] == "meta" else None
        if isinstance(scenario, Mapping):
            return scenario
    return {}
