"""Sending in the background: what is in memory, what is on the disk, and bad disks."""

from __future__ import annotations

import fcntl
import gc
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inspect_robots.rollout import TrialRecord
from inspect_robots.scene import Scene
from inspect_robots.types import Observation

from grader_service.client.spool import Spool
from grader_service.plugins.harness import grader as grading
from grader_service.plugins.harness import sender as sending
from grader_service.plugins.harness.options import Options, read_options
from grader_service.plugins.harness.sender import Sender
from grader_service.plugins.harness.snapshot import Snapshot, pack, take_snapshot
from grader_service.plugins.harness.verdicts import new_marker
from grader_service.plugins.harness.voice import Voice
from grader_service.plugins.stub_service import StubService
from tests.plugins.harness.rig import grader
from tests.support.stack import Stack, wait_until

NOWHERE = "http://127.0.0.1:9"


def options(url: str, spool: Path, **given: Any) -> Options:
    return read_options({"url": url, "spool": str(spool), "run": "sent", **given}, {})


def snapshot(client_id: str, *, side: int = 128, scene: str = "s") -> Snapshot:
    """Return a snapshot with one frame of side x side x 3 bytes."""
    record = TrialRecord(scene, 0, None)
    record.parked_observation = Observation(images={"c": np.ones((side, side, 3), np.uint8)})
    return take_snapshot(record, Scene(scene, "Lift the cup"), client_id)


def finish(sender: Sender) -> int:
    return sender.close(time.monotonic() + 30)


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if "autograder" in thread.name}


def test_while_the_service_is_down_only_the_disk_holds_the_trials(tmp_path: Path) -> None:
    sender = Sender(options(NOWHERE, tmp_path), Voice())
    for number in range(20):
        sender.put(snapshot(f"id{number}", side=600), new_marker(f"id{number}", "sent"))
    kept = wait_until(
        lambda: [*waiting] if len(waiting := Spool(tmp_path).waiting()) == 20 else None,
        what="the trials on the disk",
    )
    wait_until(lambda: sender._unwritten == 0, what="the end of writing")
    gc.collect()
    assert not [o for o in gc.get_objects() if isinstance(o, Snapshot)]
    assert sender.left() == 20
    for entry in kept:
        entry.path.unlink()
    assert finish(sender) == 0


def test_threads_end_with_the_work_and_begin_with_more_of_it(stack: Stack, tmp_path: Path) -> None:
    sender = Sender(options(stack.url, tmp_path), Voice())
    for client_id in ("first-burst", "second-burst"):
        ticket = sender.put(snapshot(client_id), new_marker(client_id, "sent"))
        assert finish(sender) == 0
        assert ticket.tried.is_set()
        assert ticket.marker["trial"] is not None
        wait_until(lambda: not threads(), what="the threads to end")
        assert sender not in sending._BUSY


def test_a_trial_that_the_service_cant_take_does_not_keep_back_the_others(
    stack: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sender = Sender(options(stack.url, tmp_path), Voice())
    bad = sender.put(snapshot("bad", scene="\x00"), new_marker("bad", "sent"))
    good = sender.put(snapshot("good-after-bad"), new_marker("good-after-bad", "sent"))
    assert finish(sender) == 0
    assert bad.marker["state"] == "rejected"
    assert good.marker["trial"] is not None
    assert "the service refused trial bad" in capsys.readouterr().err


def test_without_a_disk_trials_are_sent_from_memory_and_the_user_is_warned(
    stack: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    sender = Sender(options(stack.url, tmp_path / "file" / "spool"), Voice())
    ticket = sender.put(snapshot("diskless"), new_marker("diskless", "sent"))
    assert finish(sender) == 0
    assert ticket.marker["trial"] is not None
    assert "a trial is lost when the service does not take it" in capsys.readouterr().err


def test_a_trial_that_neither_disk_nor_service_takes_is_said_to_be_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    sender = Sender(options(NOWHERE, tmp_path / "file" / "spool"), Voice())
    ticket = sender.put(snapshot("lost"), new_marker("lost", "sent"))
    assert finish(sender) == 0
    assert ticket.marker["state"] == "rejected"
    assert "a trial is lost: no service answers" in capsys.readouterr().err


def test_what_goes_wrong_while_a_trial_is_packed_loses_that_trial_only(
    stack: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sender = Sender(options(stack.url, tmp_path), Voice())
    broken = snapshot("broken")
    del broken.record.seed
    bad = sender.put(broken, new_marker("broken", "sent"))
    good = sender.put(snapshot("good-after-broken"), new_marker("good-after-broken", "sent"))
    assert finish(sender) == 0
    assert bad.marker["state"] == "rejected"
    assert good.marker["trial"] is not None
    assert "a trial is lost: AttributeError" in capsys.readouterr().err


def test_a_verdict_that_came_with_the_trial_survives_a_refusal(
    stack: Stack, tmp_path: Path
) -> None:
    sender = Sender(options(stack.url, tmp_path, judge="nobody"), Voice())
    marker = new_marker("adopted", "sent") | {"state": "done", "outcome": "graded"}
    sender.put(snapshot("adopted"), marker)
    assert finish(sender) == 0
    assert len(Spool(tmp_path).rejected()) == 1
    assert (marker["state"], marker["outcome"], marker["reason"]) == ("done", "graded", None)


def trial_of(number: int) -> TrialRecord:
    record = TrialRecord(f"s{number}", 0, None)
    record.parked_observation = Observation(images={"c": np.ones((64, 64, 3), np.uint8)})
    return record


@pytest.mark.parametrize("trouble", ["held by another process", "not readable"])
def test_what_an_earlier_run_left_does_not_keep_a_verdict_from_being_waited_for(
    autograder_service: StubService, tmp_path: Path, trouble: str
) -> None:
    packed = pack(snapshot("left"), run="old", rubric=None, judge=None)
    left = Spool(tmp_path).put(autograder_service.url, packed.trial, packed.parts)
    made = grader(autograder_service.url, tmp_path, wait=True, flush=0)
    with ExitStack() as held:
        if trouble == "not readable":
            left.path.unlink()
            left.path.mkdir()
        else:
            file = held.enter_context(left.path.open("rb"))
            fcntl.flock(file, fcntl.LOCK_EX)
        for number in range(3):
            record = trial_of(number)
            made.grade(record, Scene(f"s{number}", "Lift the cup"))
            assert record.operator_judgement == "success"
    if left.path.is_dir():
        left.path.rmdir()
    assert finish(made._sender) == 0


def test_verdicts_are_waited_for_again_as_soon_as_an_outage_is_over(
    autograder_service: StubService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The pause of an outage that lasts.
    monkeypatch.setattr(sending, "_FIRST_WAIT_S", 60.0)
    made = grader(autograder_service.url, tmp_path, wait=True)
    with autograder_service.down("503"):
        during = trial_of(0)
        made.grade(during, Scene("s0", "Lift the cup"))
    assert during.metadata["autograder"]["state"] == "pending"
    after = trial_of(1)
    made.grade(after, Scene("s1", "Lift the cup"))
    assert after.operator_judgement == "success"
    assert finish(made._sender) == 0


# A request that hangs is given up after half a second here; the client's own patience is 30 s.
@pytest.mark.timeout(25)
def test_a_service_that_hangs_holds_the_robot_no_longer_than_patience_lasts(
    autograder_service: StubService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grading, "_PATIENCE_S", 0.5)
    autograder_service.hold()
    made = grader(autograder_service.url, tmp_path, wait=True, timeout=0.5)

    def hang() -> None:
        autograder_service.wait_for(1)
        autograder_service.down("hang")

    with ThreadPoolExecutor(1) as pool:
        hung = pool.submit(hang)
        record = trial_of(0)
        made.grade(record, Scene("s0", "Lift the cup"))
        hung.result()
    assert record.metadata["autograder"]["state"] == "pending"
    autograder_service.up()
    assert finish(made._sender) == 0


def test_ctrl_c_at_any_moment_of_the_handing_over_leaves_the_sender_able_to_send(
    autograder_service: StubService, tmp_path: Path
) -> None:
    made = Sender(options(autograder_service.url, tmp_path), Voice())
    chance = random.Random(1)
    taken = 0
    for number in range(60):
        timer = threading.Timer(chance.uniform(0, 0.004), signal.raise_signal, [signal.SIGINT])
        one = snapshot(f"{number:032x}")
        try:
            timer.start()
            made.put(one, new_marker(one.client_id, "sent"))
            taken += 1
            timer.join()
        except KeyboardInterrupt:
            timer.join()
    assert finish(made) == 0
    assert len(autograder_service.trials) >= taken
