"""The spool: what a rig could not send, on its disk."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from grader_service.client.http import Client
from grader_service.client.spool import Entry, Spool, default_folder
from grader_service.errors import InputError, RecordError, UnavailableError

NOWHERE = "http://127.0.0.1:9"


def trial(**changes: Any) -> dict[str, Any]:
    """Return a trial that the service takes."""
    return {
        "kind": "robot",
        "run": "spooled",
        "client_id": uuid4().hex,
        "scene": {"id": "s", "instruction": "lift"},
        **changes,
    }


class Recorder:
    """A client that keeps what it is given, or raises."""

    def __init__(self, error: Exception | None = None) -> None:
        self.got: list[tuple[Mapping[str, Any], Mapping[str, bytes]]] = []
        self.error = error

    def submit(self, trial: Mapping[str, Any], parts: Mapping[str, bytes]) -> Mapping[str, Any]:
        self.got.append((trial, parts))
        if self.error is not None:
            raise self.error
        return {"id": "t"}


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool")


def test_what_is_put_comes_back_as_it_was_with_the_service_that_it_is_for(spool: Spool) -> None:
    wanted, parts = trial(), {"f0": bytes(range(256)), "columns/ab.npy": b"", "record": b"{}"}
    entry = spool.put("https://lab.example:8400/base", wanted, parts)
    assert spool.waiting() == [entry]
    assert spool.waiting()[0].url == "https://lab.example:8400/base"
    assert entry.client_id == wanted["client_id"]
    assert entry.read() == (wanted, parts)


def test_trials_wait_oldest_first_and_each_for_its_own_service(spool: Spool) -> None:
    put = [spool.put(url, trial(), {}) for url in ("http://a:1", "http://b:1", "http://a:1")]
    assert spool.waiting() == put
    assert spool.waiting("http://a:1") == [put[0], put[2]]
    assert spool.waiting("http://c:1") == []


def test_a_sent_trial_is_at_the_service_and_gone_from_the_disk(
    spool: Spool, service_url: str
) -> None:
    entry = spool.put(service_url, trial(), {})
    with Client(service_url) as client:
        outcome = spool.send(entry, client)
        found = client.find(entry.client_id)
    assert outcome.kind == "sent"
    assert found is not None
    assert outcome.answer == found
    assert spool.waiting() == spool.rejected() == []


def test_sending_what_another_process_has_sent_does_nothing(spool: Spool) -> None:
    entry = spool.put(NOWHERE, trial(), {})
    client = Recorder()
    assert spool.send(entry, client).kind == "sent"
    assert spool.send(entry, client).kind == "gone"
    assert len(client.got) == 1


def test_while_the_service_is_down_a_trial_stays(spool: Spool) -> None:
    entry = spool.put(NOWHERE, trial(), {"f0": b"x"})
    with Client(NOWHERE) as client, pytest.raises(UnavailableError):
        spool.send(entry, client)
    assert spool.waiting() == [entry]
    assert entry.read()[1] == {"f0": b"x"}


def test_what_the_service_refuses_is_kept_with_the_reason(spool: Spool, service_url: str) -> None:
    entry = spool.put(service_url, trial(rubric="robot/no-such-rubric"), {})
    with Client(service_url) as client:
        outcome = spool.send(entry, client)
    assert outcome.kind == "refused"
    assert outcome.problem is not None
    assert "there is no rubric 'robot/no-such-rubric'" in outcome.problem
    assert spool.waiting() == []
    [kept] = spool.rejected()
    assert kept.client_id == entry.client_id
    assert kept.problem is not None
    assert kept.problem.startswith(outcome.problem)
    assert "fix: " in kept.problem


def test_a_refused_trial_can_be_sent_with_what_was_wrong_put_right(
    spool: Spool, service_url: str
) -> None:
    entry = spool.put(service_url, trial(rubric="robot/no-such-rubric"), {})
    with Client(service_url) as client:
        spool.send(entry, client)
        [kept] = spool.rejected()
        assert spool.send(kept, client).kind == "refused"
        assert spool.rejected() == [kept]
        assert spool.send(kept, client, rubric="Is the cube lifted?").kind == "sent"
        assert client.find(entry.client_id) is not None
    assert [path for path in spool.folder.rglob("*") if path.is_file()] == []


def test_a_damaged_file_is_put_aside_instead_of_blocking_the_others(spool: Spool) -> None:
    entry = spool.put(NOWHERE, trial(), {"f0": bytes(100_000)})
    whole = entry.path.read_bytes()
    for number, damaged in enumerate(
        (b"", whole[:1000], whole[:-10], whole.replace(b"\0" * 1000, b"\1" * 1000), b"PK")
    ):
        entry.path.write_bytes(damaged)
        with pytest.raises(RecordError, match="is damaged"):
            entry.read()
        bad = Entry(entry.path.with_name(f"{number:020d}-x.zip"), NOWHERE)
        entry.path.rename(bad.path)
        assert spool.send(bad, Recorder()).kind == "refused"
    assert len(spool.rejected()) == 5


def test_an_unfinished_file_is_no_trial_and_is_deleted_once_its_process_must_be_dead(
    spool: Spool,
) -> None:
    folder = spool.put(NOWHERE, trial(), {}).path.parent
    old, new = folder / f"{1:020d}-a.tmp", folder / f"{2:020d}-b.tmp"
    for path in (old, new):
        path.write_bytes(b"PK")
    os.utime(old, (0, time.time() - 4000))
    spool.clean()
    assert not old.exists()
    assert new.exists()
    assert len(spool.waiting()) == 1


def test_a_disk_that_takes_nothing_is_said_and_nothing_half_written_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        Spool(tmp_path / "file" / "spool").put(NOWHERE, trial(), {})
    spool = Spool(tmp_path)
    folder = spool.put(NOWHERE, trial(), {}).path.parent
    with pytest.raises(FileNotFoundError):
        spool.put(NOWHERE, trial(client_id="no/such/folder"), {})
    assert len(list(folder.iterdir())) == 1


# Locks an entry as `send` does, and says so.
_HOLD = """
import sys, time
from pathlib import Path
from grader_service.client.spool import Entry, Spool
class Hang:
    def submit(self, trial, parts):
        print("holding", flush=True)
        time.sleep(600)
path = Path(sys.argv[1])
Spool(path.parent.parent).send(Entry(path, "http://127.0.0.1:9"), Hang())
"""


def test_a_trial_that_another_process_sends_is_left_to_it_until_it_dies(spool: Spool) -> None:
    entry = spool.put(NOWHERE, trial(), {})
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(entry.path)], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "holding\n"
        client = Recorder()
        assert spool.send(entry, client).kind == "busy"
        assert client.got == []
        other.kill()
        other.wait()
        assert spool.send(entry, client).kind == "sent"


def test_an_error_of_ours_leaves_the_trial_where_it_is(spool: Spool) -> None:
    entry = spool.put(NOWHERE, trial(), {})
    with pytest.raises(ZeroDivisionError):
        spool.send(entry, Recorder(ZeroDivisionError()))
    assert spool.waiting() == [entry]
    assert spool.send(entry, Recorder(InputError("no"))).kind == "refused"


def test_the_spool_is_where_the_environment_says_or_with_the_users_state() -> None:
    assert default_folder({"AUTOGRADER_SPOOL": "/data/spool"}) == Path("/data/spool")
    assert default_folder({"XDG_STATE_HOME": "/state"}) == Path("/state/autograder/spool")
    home = Path("~").expanduser()
    assert default_folder({}) == home / ".local/state/autograder/spool"


def test_files_of_others_in_the_folder_are_left_alone(spool: Spool) -> None:
    logs, backups = spool.folder / "logs", spool.folder / "backups"
    strangers = [logs / "kitchen_1a2b.json.tmp", backups / "photos.zip"]
    for path in strangers:
        path.parent.mkdir(parents=True)
        path.write_bytes(b"mine")
        os.utime(path, (0, 0))
    spool.clean()
    assert spool.waiting() == []
    assert all(path.read_bytes() == b"mine" for path in strangers)


def test_a_rig_whose_clock_stands_in_1970_keeps_its_trials(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 3.0)
    monkeypatch.setattr(time, "time_ns", lambda: 3_000_000_000)
    entry = spool.put(NOWHERE, trial(), {"f0": b"frame"})
    assert entry.read()[1] == {"f0": b"frame"}
    assert [path.suffix for path in entry.path.parent.iterdir()] == [".zip"]
