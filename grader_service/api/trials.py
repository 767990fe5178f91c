"""Trials: submit them, list them, read what came of them."""

from __future__ import annotations

from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from grader_service.api.body import Limits, read_parts
from grader_service.api.problems import PROBLEM
from grader_service.api.schemas import (
    TrialOut,
    TrialsOut,
    VerdictOut,
)
from grader_service.api.state import limits_of, service_of
from grader_service.client.forms import (
    A320TrialIn,
    RobotTrialIn,
    TrialQuery,
    one_client_id,
    only_parts,
    part_named,
    validated,
)
from grader_service.errors import InputError
from grader_service.grading import read
from grader_service.grading.export import archive, export_trial
from grader_service.grading.service import Service
from grader_service.grading.submit import (
    A320Submission,
    FrameUpload,
    RobotSubmission,
    submit,
)
from grader_service.records.strict_json import parse_strict
from grader_service.records.trial import Scene

router = APIRouter(prefix="/v1/trials", tags=["trials"])

ServiceDep = Annotated[Service, Depends(service_of)]
LimitsDep = Annotated[Limits, Depends(limits_of)]

_COLUMN: Final = "columns/"
_KINDS: Final[dict[str, type[RobotTrialIn | A320TrialIn]]] = {
    "robot": RobotTrialIn,
    "a320": A320TrialIn,
}
_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["trial"],
                    "properties": {
                        "trial": {
                            "oneOf": [
                                {"$ref": "#/components/schemas/RobotTrialIn"},
                                {"$ref": "#/components/schemas/A320TrialIn"},
                            ]
                        },
                        "record": {
                            "type": "string",
                            "contentMediaType": "application/json",
                            "description": "trial-record/1; its columns follow as parts "
                            "named columns/<sha256>.npy",
                        },
                        "trajectory": {
                            "type": "string",
                            "contentMediaType": "application/x-ndjson",
                        },
                    },
                    "additionalProperties": {
                        "type": "string",
                        "contentMediaType": "application/octet-stream",
                    },
                }
            }
        },
    }
}


@router.post(
    "",
    status_code=202,
    openapi_extra=_BODY,
    responses={
        200: {"model": TrialOut, "description": "It was submitted before, with this content."},
        **dict.fromkeys((400, 409, 413, 415, 422, 503), PROBLEM),
    },
)
async def submit_trial(
    request: Request,
    response: Response,
    service: ServiceDep,
    limits: LimitsDep,
    idempotency_key: Annotated[str | None, Header(max_length=200)] = None,
) -> TrialOut:
    """Take a trial. It is stored when this answers, and graded later."""
    parts = await read_parts(request, limits)

    def store() -> tuple[TrialOut, bool]:
        submitted = submit(service, _submission(parts, idempotency_key))
        return TrialOut.of(read.trial(service, submitted.id)), submitted.created

    out, created = await run_in_threadpool(store)
    response.status_code = 202 if created else 200
    response.headers["Location"] = out.links["self"]
    return out


def _submission(
    parts: dict[str, bytes], idempotency_key: str | None
) -> RobotSubmission | A320Submission:
    if "trial" not in parts:
        raise InputError("the part 'trial' is missing", fix="send it as JSON; see /docs")
    value = parse_strict(parts["trial"], what="the part 'trial'")
    kind = value.get("kind") if isinstance(value, dict) else None
    model = _KINDS.get(kind) if isinstance(kind, str) else None
    if model is None:
        raise InputError(f"unknown kind {kind!r}", fix="set kind to 'robot' or 'a320'")
    trial = validated(model, value, what="trial")
    client_id = one_client_id(trial.client_id, idempotency_key)
    if isinstance(trial, A320TrialIn):
        only_parts(parts, {"trial", "trajectory"})
        return A320Submission(
            run=trial.run,
            trajectory=part_named(parts, "trajectory", "the JSONL of the run"),
            rubric=trial.rubric,
            judge=trial.judge,
            client_id=client_id,
            priority=trial.priority,
            fresh=trial.fresh,
        )
    named = {"trial", *(frame.part for frame in trial.frames)}
    columns = {name for name in parts if name.startswith(_COLUMN)} if trial.record else set()
    only_parts(parts, named | columns | ({trial.record} if trial.record else set()))
    return RobotSubmission(
        run=trial.run,
        scene=Scene(
            id=trial.scene.id,
            instruction=trial.scene.instruction,
            metadata=trial.scene.metadata,
        ),
        epoch=trial.epoch,
        frames=[
            FrameUpload(
                camera=frame.camera,
                phase=frame.phase,
                data=part_named(parts, frame.part, f"the {frame.phase} frame of {frame.camera!r}"),
            )
            for frame in trial.frames
        ],
        record=part_named(parts, trial.record, "the record") if trial.record else None,
        columns={name.removeprefix(_COLUMN).removesuffix(".npy"): parts[name] for name in columns},
        rubric=trial.rubric,
        judge=trial.judge,
        client_id=client_id,
        priority=trial.priority,
        fresh=trial.fresh,
    )


@router.get("", responses={422: PROBLEM})
def list_trials(service: ServiceDep, query: Annotated[TrialQuery, Query()]) -> TrialsOut:
    """List trials in the order of their submission."""
    found = read.page(
        service,
        limit=query.limit,
        cursor=None if query.cursor is None else str(query.cursor),
        run=query.run,
        state=query.state,
        outcome=query.outcome,
        needs_review=query.needs_review,
        client_id=query.client_id,
    )
    return TrialsOut(
        trials=[TrialOut.of(view) for view in found.trials], next_cursor=found.next_cursor
    )


_MISSING: Final[dict[int | str, dict[str, Any]]] = {404: PROBLEM, 422: PROBLEM}


@router.get("/{trial_id}", responses=_MISSING)
def get_trial(trial_id: UUID, service: ServiceDep) -> TrialOut:
    """Read one trial's state and verdict."""
    return TrialOut.of(read.trial(service, str(trial_id)))


@router.get("/{trial_id}/record", response_class=Response, responses=_MISSING)
def get_record(trial_id: UUID, service: ServiceDep) -> Response:
    """Read the record with its effective verdict written on it."""
    media_type, data = read.record(service, str(trial_id))
    return Response(data, media_type=media_type)


@router.get("/{trial_id}/files", response_class=StreamingResponse, responses=_MISSING)
def get_files(trial_id: UUID, service: ServiceDep) -> Response:
    """Read everything of a trial as a tar archive: the folder that an export of it is.

    Frames are in it as they were received: for programs, not to be shown by a browser.
    """
    files = export_trial(service, str(trial_id))
    return StreamingResponse(
        archive(files),
        media_type="application/x-tar",
        headers={
            "X-Content-Type-Options": "nosniff",
            "Content-Disposition": f'attachment; filename="{trial_id}.tar"',
        },
    )


@router.get("/{trial_id}/frames/{sha256}", response_class=Response, responses=_MISSING)
def get_frame(trial_id: UUID, sha256: str, service: ServiceDep) -> Response:
    """Read a frame, re-encoded as JPEG."""
    return Response(
        read.frame(service, str(trial_id), sha256),
        media_type="image/jpeg",
        headers={
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "Cache-Control": "private, max-age=31536000, immutable",
        },
    )


@router.get("/{trial_id}/verdicts", responses=_MISSING)
def get_verdicts(trial_id: UUID, service: ServiceDep) -> list[VerdictOut]:
    """Read all verdicts of a trial with their receipts, oldest first."""
    return [
        VerdictOut.of(verdict, effective=effective)
        for verdict, effective in read.verdicts_of(service, str(trial_id))
    ]


@router.get("/{trial_id}/scorecard", response_class=Response, responses=_MISSING)
def get_scorecard(
    request: Request,
    trial_id: UUID,
    service: ServiceDep,
    scorer: Annotated[list[str] | None, Query()] = None,
) -> Response:
    """Read the ScoreCard's canonical bytes; the ETag is their digest."""
    card = read.scorecard(service, str(trial_id), scorer or ())
    etag = f'"{card.digest}"'
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers={"ETag": etag})
    return Response(card.canonical(), media_type="application/json", headers={"ETag": etag})
