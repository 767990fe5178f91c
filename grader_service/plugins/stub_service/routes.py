"""The routes of the service that a harness and its tools use."""

from __future__ import annotations

import io
import tarfile
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol
from uuid import UUID

from grader_service.client.forms import TrialQuery, validated
from grader_service.errors import InputError, NotFoundError, RubricError
from grader_service.judging.rubric import library, library_rubric
from grader_service.plugins.stub_service.multipart import read_parts
from grader_service.plugins.stub_service.server import (
    Request,
    Response,
    json_response,
    problem_document,
)
from grader_service.plugins.stub_service.trials import Received, receive
from grader_service.records.canonical import canonical_bytes
from grader_service.records.judged import apply_verdict, judged_trajectory
from grader_service.records.manifest import MANIFEST_PATH, build_manifest
from grader_service.records.saved import RECORD_PATH, load_trial, save_trial
from grader_service.records.verdict_lines import VERDICTS_PATH, verdict_line
from grader_service.scoring.accounts import Accounts

_GRADABLE_SHARE: Final = 0.8
_TRAJECTORY: Final = "trajectory.jsonl"


class Trials(Protocol):
    """What the routes need of the service."""

    trials: list[Received]

    def take(self, trial: Received) -> tuple[Received, bool]: ...

    def is_done(self, trial: Received) -> bool: ...


_Route = Callable[..., Response]


class Routes:
    """Finds the route of a request. Raises AutograderError for what the service refuses."""

    def __init__(self, service: Trials) -> None:
        self._service = service
        # {} stands for any step.
        self._routes: Mapping[tuple[str, ...], Mapping[str, _Route]] = {
            ("healthz",): {"GET": lambda _: json_response({"status": "ok"})},
            ("readyz",): {"GET": self._readiness},
            ("v1", "trials"): {"GET": self._list, "POST": self._submit},
            ("v1", "trials", "{}"): {"GET": self._trial},
            ("v1", "trials", "{}", "record"): {"GET": self._record},
            ("v1", "trials", "{}", "verdicts"): {"GET": self._verdicts},
            ("v1", "trials", "{}", "files"): {"GET": self._files},
            ("v1", "runs", "{}"): {"GET": self._run},
            # Without any, every name of one is taken.
            ("v1", "judges"): {"GET": lambda _: json_response({"judges": []})},
            ("v1", "rubrics"): {"GET": self._rubrics},
            ("v1", "rubrics", "{}"): {"GET": self._rubric},
            ("v1", "rubrics", "{}", "{}"): {"GET": self._rubric},
        }

    def answer(self, request: Request) -> Response:
        for pattern, methods in self._routes.items():
            if len(pattern) != len(request.steps):
                continue
            pairs = list(zip(pattern, request.steps, strict=True))
            if any(want not in ("{}", step) for want, step in pairs):
                continue
            if request.method not in methods:
                return problem_document(
                    405,
                    "method-not-allowed",
                    "Method Not Allowed",
                    "see /docs for the routes",
                    Allow=", ".join(methods),
                )
            return methods[request.method](request, *(step for want, step in pairs if want == "{}"))
        return problem_document(404, "not-found", "Not Found", "see /docs for the routes")

    def _readiness(self, _: Request) -> Response:
        return json_response(
            {"ready": True, "status": "ready", "causes": [], "workers": 1, "stuck": []}
        )

    # --- trials ---------------------------------------------------------------------------------

    def _submit(self, request: Request) -> Response:
        parts = read_parts(request.headers, request.body)
        received = receive(parts, request.headers.get("idempotency-key"))
        trial, created = self._service.take(received)
        answer = self._told(trial)
        return json_response(answer, 202 if created else 200, Location=answer["links"]["self"])

    def _list(self, request: Request) -> Response:
        values = {name: given[-1] for name, given in request.query.items()}
        query = validated(TrialQuery, values, what="query")
        found = [
            told
            for told in map(self._told, list(self._service.trials))
            if query.run in (None, told["run"])
            and query.client_id in (None, told["client_id"])
            and query.state in (None, told["state"])
            and query.outcome in (None, told["outcome"])
            and query.needs_review in (None, told["needs_review"])
        ]
        if query.cursor is not None:
            ids = [told["id"] for told in found]
            after = str(query.cursor)
            found = found[ids.index(after) + 1 :] if after in ids else []
        page = found[: query.limit]
        cursor = page[-1]["id"] if len(found) > query.limit else None
        return json_response({"trials": page, "next_cursor": cursor})

    def _trial(self, _: Request, trial_id: str) -> Response:
        return json_response(self._told(self._find(trial_id)))

    def _verdicts(self, _: Request, trial_id: str) -> Response:
        trial = self._find(trial_id)
        verdict = trial.verdict
        if verdict is None or not self._service.is_done(trial):
            return json_response([])
        fields = ("id", "source", "outcome", "verdict", "reason", "at", "note", "by", "receipt")
        told = {name: getattr(verdict, name) for name in fields}
        return json_response([told | {"effective": True}])

    def _record(self, _: Request, trial_id: str) -> Response:
        trial = self._find(trial_id)
        verdict = trial.verdict if self._service.is_done(trial) else None
        if trial.trial.kind == "a320":
            data = judged_trajectory(trial.files[_TRAJECTORY], verdict)
            return Response(200, data, "application/x-ndjson")
        saved = load_trial(trial.files.__getitem__)
        judged = save_trial(
            apply_verdict(saved.record, verdict),
            saved.scene,
            frames=saved.frames,
            instruction_used=saved.instruction_used,
            planned=saved.planned,
        )
        return Response(200, judged[RECORD_PATH])

    def _files(self, _: Request, trial_id: str) -> Response:
        trial = self._find(trial_id)
        verdict = trial.verdict if self._service.is_done(trial) else None
        files = dict(trial.files)
        submitted = files.get(_TRAJECTORY)
        if submitted is not None:
            files[_TRAJECTORY] = judged_trajectory(submitted, verdict)
        files[VERDICTS_PATH] = b"" if verdict is None else verdict_line(verdict)
        manifest = build_manifest(files, newest_receipt=None, trajectory=submitted)
        files[MANIFEST_PATH] = canonical_bytes(manifest)
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for name, data in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        return Response(200, archive.getvalue(), "application/x-tar")

    def _told(self, trial: Received) -> Any:
        return trial.answer(done=self._service.is_done(trial))

    def _find(self, trial_id: str) -> Received:
        try:
            UUID(trial_id)
        except ValueError as error:
            raise InputError(f"path.trial_id: {error}", fix="give a trial's id") from error
        for trial in self._service.trials:
            if trial.id == trial_id:
                return trial
        raise NotFoundError(
            f"there is no trial {trial_id}", fix="GET /v1/trials lists the trials that there are"
        )

    # --- rubrics --------------------------------------------------------------------------------

    def _rubrics(self, _: Request) -> Response:
        fields = ("id", "kind", "title", "digest")
        known = [library()[id_] for id_ in sorted(library())]
        return json_response(
            {"rubrics": [{name: getattr(rubric, name) for name in fields} for rubric in known]}
        )

    def _rubric(self, _: Request, *steps: str) -> Response:
        try:
            rubric = library_rubric("/".join(steps))
        except RubricError as error:
            raise NotFoundError(error.message, fix=error.fix) from error
        return json_response({"digest": rubric.digest, "rubric": rubric.to_dict()})

    # --- runs -----------------------------------------------------------------------------------

    def _run(self, _: Request, run: str) -> Response:
        told = [one for one in map(self._told, list(self._service.trials)) if one["run"] == run]
        if not told:
            raise NotFoundError(f"there is no run {run!r}", fix="GET /v1/runs lists the runs")
        graded = Counter(one["verdict"] for one in told if one["outcome"] == "graded")
        reasons = {
            account: Counter(one["reason"] for one in told if one["outcome"] == account)
            for account in ("abstained", "ungraded")
        }
        accounts = Accounts(
            success=graded["success"],
            failure=graded["failure"],
            abstained=reasons["abstained"],
            ungraded=reasons["ungraded"],
            queued=sum(one["state"] == "queued" for one in told),
        )
        return json_response(
            {
                "run": run,
                "trials": len(told),
                "cancelled": 0,
                **accounts.to_dict(gradable_share=_GRADABLE_SHARE),
                "failure_modes": {},
                "usage": {"answers": 0, "input_tokens": 0, "output_tokens": 0, "unknown": 0},
                "cost": {"usd": "0", "unpriced": 0},
                "waiting_for": None,
            }
        )
