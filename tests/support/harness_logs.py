"""Logs of real runs of the harness, and a stand-in for the service that gives their verdicts."""

from __future__ import annotations

import io
import json
import tarfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from inspect_robots import Epochs, Scene, Task
from inspect_robots import eval as run_eval
from inspect_robots.mock.policies import ScriptedPolicy
from inspect_robots.transcript import operator_event

from grader_service.records.saved import FrameRef, save_trial
from grader_service.records.trial import Scene as OurScene
from grader_service.records.trial import TrialRecord

Place = tuple[str, int]
# What the service says of a trial: outcome, verdict, reason, source, note.
Said = tuple[str, str | None, str | None, str, str | None]

SUCCESS: Said = ("graded", "success", None, "vlm", "It lies in the goal.")
FAILURE: Said = ("graded", "failure", None, "vlm", "x" * 3000)
HUMAN: Said = ("graded", "success", None, "human", None)
ABSTAINED: Said = ("abstained", "abstain", "criteria_unclear", "vlm", None)
UNGRADED: Said = ("ungraded", None, "provider_unavailable", "vlm", None)
KINDS: Sequence[Said] = (SUCCESS, FAILURE, HUMAN, ABSTAINED, UNGRADED)


@dataclass
class Verdicts:
    """A stand-in for the service: it knows what it says of each trial, by client id.

    Without an entry in `said` a trial waits. `parked` are those whose judge saw parked frames.
    """

    said: dict[str, Said] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    cancelled: set[str] = field(default_factory=set)
    parked: set[str] = field(default_factory=set)
    findings: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def trial(self, client_id: str) -> dict[str, Any] | None:
        if client_id not in self.said and client_id not in self.waiting | self.cancelled:
            return None
        names = ("outcome", "verdict", "reason", "source", "note")
        said = self.said.get(client_id, (None,) * len(names))
        state = "cancelled" if client_id in self.cancelled else "queued"
        if client_id in self.said:
            state = "done"
        return {
            "id": f"id-{client_id}",
            "run": "r",
            "client_id": client_id,
            "state": state,
            **dict(zip(names, said, strict=True)),
        }

    def record(self, client_id: str) -> bytes:
        phase: Any = "parked" if client_id in self.parked else "last"
        frame = FrameRef("top", phase, "0" * 64, "image/png", 1)
        record = TrialRecord(scene_id="s", epoch=0, seed=None)
        return save_trial(record, OurScene("s", "x"), frames=[frame])["record.json"]

    def verdicts(self, client_id: str) -> list[dict[str, Any]]:
        receipt = {"findings": self.findings.get(client_id, [])}
        return [{"effective": False, "receipt": None}, {"effective": True, "receipt": receipt}]

    def archive(self, client_id: str) -> bytes:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for name, data in self.files[client_id].items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        return packed.getvalue()

    def answer(self, target: str) -> tuple[int, bytes]:
        path, query = urlsplit(target).path, parse_qs(urlsplit(target).query)
        self.asked.append(target)
        if path == "/v1/trials":
            found = self.trial(query["client_id"][0])
            page = {"trials": [] if found is None else [found], "next_cursor": None}
            return 200, json.dumps(page).encode()
        client_id, _, what = path.removeprefix("/v1/trials/id-").partition("/")
        if what == "record":
            return 200, self.record(client_id)
        if what == "verdicts":
            return 200, json.dumps(self.verdicts(client_id)).encode()
        if what == "files" and client_id in self.files:
            return 200, self.archive(client_id)
        return 404, b'{"detail": "there is no such thing"}'


@contextmanager
def verdicts_at() -> Iterator[Verdicts]:
    """Serve the stand-in on a loopback port until the block ends."""
    verdicts = Verdicts()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = verdicts.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        verdicts.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield verdicts
        finally:
            server.shutdown()
            thread.join()


@dataclass
class TableGrader:
    """A grader that has a table for a service.

    With `waits` it writes the verdict on the record as one that waited would, which is what a
    harvest is measured against; else it leaves the marker of a pending trial.
    """

    table: Mapping[Place, Said]
    service: Verdicts
    waits: bool = False
    abstain: bool = False
    name: str = "autograder"

    def grade(self, record: Any, scene: Any) -> None:
        place = (scene.id, record.epoch)
        client_id = f"{scene.id}-{record.epoch}"
        self.service.files[client_id] = save_trial(record, scene)
        marker = {
            "client_id": client_id,
            "run": "r",
            "trial": f"id-{client_id}" if self.waits else None,
            "state": "pending",
            "outcome": None,
            "reason": None,
        }
        record.metadata["autograder"] = marker
        if record.terminated and record.termination_reason in ("success", "failure"):
            record.operator_judgement = record.termination_reason
            event = operator_event(
                len(record.steps), record.termination_reason, source="embodiment"
            )
            record.events.append(event)
            marker.update(trial=None, state="done", outcome="graded")
            return
        said = self.table.get(place)
        if said is None:
            self.service.waiting.add(client_id)
        else:
            self.service.said[client_id] = said
        if self.abstain and (said is None or not self.waits):
            record.metadata["grading_error"] = f"pending: autograder trial {client_id}"
        if said is None or not self.waits:
            return
        outcome, verdict, reason, source, note = said
        marker.update(state="done", outcome=outcome, reason=reason)
        if outcome != "graded":
            record.metadata["grading_error"] = f"{outcome}: {reason}"
            return
        if client_id in self.service.parked:
            record.metadata["graded_frames"] = "parked"
        record.operator_judgement = verdict
        record.operator_note = None if note is None else note[:2000]
        assert verdict is not None
        event = operator_event(len(record.steps), verdict, source=source, note=record.operator_note)
        record.events.append(event)


class FaultyPolicy(ScriptedPolicy):
    """Goes for the cube, and fails in the trials named by their number, counted from 0."""

    def __init__(self, fails_in: Sequence[int] = ()) -> None:
        super().__init__()
        self._fails_in = fails_in
        self._trial = -1

    def reset(self, scene: Any) -> None:
        self._trial += 1
        super().reset(scene)

    def act(self, observation: Any) -> Any:
        if self._trial in self._fails_in:
            raise RuntimeError("the policy broke")
        return super().act(observation)


def make_task(
    *,
    name: str = "unregistered",
    scenes: int = 3,
    epochs: int = 5,
    reducer: str = "mean",
    scorers: Sequence[Any] = ("operator", "episode_length"),
    max_steps: int = 8,
) -> Any:
    """Return a task; within 8 steps some trials reach the cube, within 20 all of them."""
    return Task(
        name=name,
        scenes=[Scene(f"scene-{k}", "reach the cube", init_seed=k) for k in range(scenes)],
        scorer=list(scorers),
        max_steps=max_steps,
        epochs=Epochs(epochs, reducer),
    )


def run(
    task: Any, grader: Any, log_dir: Path, *, policy: Any = None, embodiment: Any = "cubepick"
) -> Path:
    """Run a task and return its log's path."""
    before = set(log_dir.glob("*.json"))
    run_eval(task, policy or FaultyPolicy(), embodiment, log_dir=str(log_dir), grader=grader)
    [path] = set(log_dir.glob("*.json")) - before
    return path


def comparable(path: Path) -> dict[str, Any]:
    """Return a log without what differs between two runs of the same: times and side-cars."""
    value: dict[str, Any] = json.loads(path.read_text())
    value["eval"].pop("created")
    for name in ("started_at", "completed_at", "duration_s"):
        value["stats"].pop(name)
    for sample in value["samples"]:
        for metadata in sample["trial_metadata"]:
            metadata.pop("actions", None)
    return value
