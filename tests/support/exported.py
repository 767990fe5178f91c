"""Exports of trials that ended in every way, from a real service."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grader_service.api.body import Limits
from grader_service.grading.export import export_run
from grader_service.providers.stub import StubModel
from grader_service.records.canonical import canonical_bytes, digest_of
from grader_service.records.manifest import MANIFEST_PATH, build_manifest, submitted_trajectory
from grader_service.records.saved import save_trial
from grader_service.records.trial import Scene, TrialRecord
from grader_service.records.verdict_lines import VERDICTS_PATH
from tests.support.in_process import InProcess, in_process
from tests.support.judges import judge_at

ROOT = Path(__file__).parents[2]

Files = dict[str, bytes]

# By what the instruction of a trial says.
SCRIPT = [
    {"match": {"text": "Repair"}, "replies": [{"fault": "malformed_json"}, {"verdict": "failure"}]},
    {"match": {"text": "Give up"}, "replies": [{"fault": "malformed_json"}, {"fault": "404"}]},
    {"match": {"text": "Refuse"}, "replies": [{"fault": "refusal"}]},
    {"match": {"text": "Lock out"}, "replies": [{"fault": "404"}]},
    {"match": {"text": "Abstain"}, "replies": [{"verdict": "abstain"}]},
    {"match": {"model": "second"}, "replies": [{"verdict": "failure"}]},
    {"match": {}, "replies": [{"verdict": "success"}]},
]


class Exported:
    """The exported files of trials, and their trajectories as submitted, by the trials' names."""

    def __init__(self, trials: Mapping[str, Files], submitted: Mapping[str, bytes]) -> None:
        self.trials = trials
        self.submitted = submitted

    def write(self, folder: Path) -> Path:
        for name, files in self.trials.items():
            write_files(folder / name, files)
        return folder


def write_files(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def exported(home: Path) -> Exported:
    """Grade trials in every way and export them."""
    with StubModel() as model:
        model.script(SCRIPT)
        judge, second = judge_at(model.url), judge_at(model.url, model="second")
        with in_process(home, judge, Limits(), second=second) as service:
            _submit_robots(service)
            trajectories = _submit_cockpits(service)
            service.grade()
            ids = {trial["client_id"]: trial["id"] for trial in _trials(service)}
            for _ in range(2):
                again = f"/v1/trials/{ids['regraded']}/gradings"
                assert service.api.post(again, json={"judge": "second"}).status_code == 202
                service.grade()
            said = {"verdict": "success", "note": "I saw it.", "reviewer": "ana"}
            for name in ("regraded", "adopted", "cockpit"):
                url = f"/v1/trials/{ids[name]}/verdicts"
                assert service.api.post(url, json=said).status_code == 201
            _submit(service, "twin", "Regrade the cube.", scene="regraded")
            service.grade()
            _submit(service, "waiting", "Wait.")
            names = {trial["id"]: trial["client_id"] for trial in _trials(service)}
            trials = {names[id_]: files for id_, files in export_run(service.service, "r")}
    return Exported(trials, trajectories)


def _trials(service: InProcess) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = service.api.get("/v1/trials", params={"run": "r"}).json()[
        "trials"
    ]
    return found


def _submit(
    service: InProcess,
    name: str,
    instruction: str,
    *,
    scene: str | None = None,
    phases: Mapping[str, str] = {"first": "initial", "last": "final"},
    record: Files | None = None,
) -> None:
    parts = {
        phase: (ROOT / "examples/trials/pad-01" / f"{file}_front.jpg").read_bytes()
        for phase, file in phases.items()
    }
    trial = {
        "kind": "robot",
        "run": "r",
        "client_id": name,
        "scene": {"id": scene or name, "instruction": instruction},
        "frames": [{"camera": "front", "phase": phase, "part": phase} for phase in phases],
        "record": "record" if record else None,
    }
    response = service.submit(trial, parts | (record or {}))
    assert response.status_code == 202, response.text


def _submit_robots(service: InProcess) -> None:
    _submit(service, "regraded", "Regrade the cube.")
    _submit(service, "repaired", "Repair the cube.")
    _submit(service, "given up", "Give up the cube.")
    _submit(service, "refused", "Refuse the cube.")
    _submit(service, "locked out", "Lock out the cube.")
    _submit(service, "abstained", "Abstain from the cube.")
    _submit(service, "dark", "See the cube.", phases={"first": "initial"})
    ended = TrialRecord(
        scene_id="adopted", epoch=0, seed=None, terminated=True, termination_reason="success"
    )
    files = save_trial(ended, Scene("adopted", "End by itself."))
    record = {"record": files.pop("record.json"), **files}
    _submit(service, "adopted", "End by itself.", record=record)


def _submit_cockpits(service: InProcess) -> dict[str, bytes]:
    whole = (ROOT / "examples/a320/g01_apu_full.jsonl").read_bytes()
    trajectories = {
        "cockpit": whole,
        "no final line feed": whole.rstrip(b"\n"),
        "cut line": whole + b'{"type": "final", "text": "\xf0\x9f',
        "blank end": whole + b" \n\n",
    }
    for name, data in trajectories.items():
        response = service.submit(
            {"kind": "a320", "run": "r", "client_id": name}, {"trajectory": data}
        )
        assert response.status_code == 202, response.text
    return trajectories


def sealed(files: Mapping[str, bytes]) -> Files:
    """Return the files with a manifest that fits them, as one who meddles would make it."""
    verdicts = [json.loads(line) for line in files[VERDICTS_PATH].splitlines()]
    receipts = [verdict["receipt"] for verdict in verdicts if verdict["receipt"] is not None]
    trajectory = files.get("trajectory.jsonl")
    manifest = build_manifest(
        {name: data for name, data in files.items() if name != MANIFEST_PATH},
        newest_receipt=digest_of(receipts[-1]) if receipts else None,
        trajectory=None
        if trajectory is None
        else submitted_trajectory(trajectory, json.loads(files[MANIFEST_PATH])["as_submitted"]),
    )
    return dict(files) | {MANIFEST_PATH: canonical_bytes(manifest)}
