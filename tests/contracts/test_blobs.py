"""The contract of a blob store: a folder, memory and S3 keep it alike."""

from __future__ import annotations

import os
import random
import resource
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from grader_service.errors import NotFoundError, SetupError, UnavailableError
from grader_service.records.canonical import digest
from grader_service.storage.blobs import BlobStore
from tests.support.servers import S3Server, start_s3

ROOT = Path(__file__).parent.parent.parent
KINDS = ["folder", "memory", "s3"]
SHARED = ["folder", "s3"]
UNKNOWN = "0" * 64


def store_of(request: pytest.FixtureRequest, kind: str) -> BlobStore:
    """Return an empty store of a kind."""
    if kind == "memory":
        return BlobStore("memory:")
    if kind == "folder":
        return BlobStore(str(request.getfixturevalue("tmp_path") / "blobs"))
    server: S3Server = request.getfixturevalue("s3_server")
    reach(request.getfixturevalue("monkeypatch"), server)
    return BlobStore(f"s3://{server.make_bucket()}/some/prefix")


def reach(monkeypatch: pytest.MonkeyPatch, server: S3Server) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(params=KINDS)
def blobs(request: pytest.FixtureRequest) -> BlobStore:
    return store_of(request, request.param)


@pytest.fixture(params=SHARED)
def shared(request: pytest.FixtureRequest) -> BlobStore:
    """A store that other processes reach under the same URL."""
    return store_of(request, request.param)


@pytest.mark.parametrize("data", [b"", b"\x00", b"{}\r\n", bytes(range(256)) * 40])
def test_a_blob_comes_back_byte_by_byte_under_its_sha256(blobs: BlobStore, data: bytes) -> None:
    assert blobs.put(data) == digest(data)
    assert blobs.get(digest(data)) == data


def test_a_large_blob_comes_back_whole(blobs: BlobStore) -> None:
    data = random.Random(7).randbytes(20_000_000)
    assert blobs.get(blobs.put(data)) == data


def test_storing_a_blob_again_changes_nothing(blobs: BlobStore) -> None:
    assert blobs.put(b"same") == blobs.put(b"same")
    assert blobs.get(digest(b"same")) == b"same"


def test_blobs_that_are_stored_together_are_all_there(blobs: BlobStore) -> None:
    contents = [b"", b"same", b"same", *(b"%d" % number * 10_000 for number in range(20))]
    blobs.put_all(contents)
    assert [blobs.get(digest(content)) for content in contents] == contents
    assert {blob.sha256 for blob in blobs.list()} == {digest(content) for content in contents}
    blobs.put_all([])


def test_many_threads_may_store_the_same_content_at_once(blobs: BlobStore) -> None:
    contents = [b"frame %d" % (number % 3) * 50_000 for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        names = list(pool.map(blobs.put, contents))
    assert names == [digest(content) for content in contents]
    assert [blobs.get(name) for name in names] == contents


def test_what_was_never_stored_is_not_found(blobs: BlobStore) -> None:
    blobs.put(b"something else")
    with pytest.raises(NotFoundError):
        blobs.get(UNKNOWN)


def test_what_one_process_stores_another_reads(shared: BlobStore) -> None:
    name = shared.put(b"from the API")
    assert BlobStore(shared.url).get(name) == b"from the API"
    assert BlobStore(shared.url).put(b"from the API") == name


def test_services_under_other_prefixes_do_not_see_each_others_blobs(shared: BlobStore) -> None:
    name = shared.put(b"mine")
    with pytest.raises(NotFoundError):
        BlobStore(f"{shared.url}/other").get(name)


def test_what_is_there_can_be_listed_with_its_size_and_age(blobs: BlobStore) -> None:
    assert list(blobs.list()) == []
    before = time.time()
    contents = [b"frame %d" % number * (number + 1) for number in range(5)]
    names = [blobs.put(content) for content in contents]
    listed = {blob.sha256: blob for blob in blobs.list()}
    assert listed.keys() == set(names)
    for name, content in zip(names, contents, strict=True):
        assert listed[name].size == len(content)
        # A store's clock may be coarse.
        assert abs(listed[name].modified_at - before) < 60


def test_a_blob_is_deleted_only_if_it_was_stored_long_enough_ago(blobs: BlobStore) -> None:
    old, kept = blobs.put(b"old"), blobs.put(b"kept")
    assert not blobs.delete(old, older_than=time.time() - 60)
    assert blobs.get(old) == b"old"
    assert blobs.delete(old, older_than=time.time() + 60)
    with pytest.raises(NotFoundError):
        blobs.get(old)
    assert not blobs.delete(old, older_than=time.time() + 60)
    assert [blob.sha256 for blob in blobs.list()] == [kept]


def test_storing_a_blob_again_makes_it_young(blobs: BlobStore) -> None:
    name = blobs.put(b"same")
    time.sleep(1.1)
    between = next(blobs.list()).modified_at + 0.5
    blobs.put(b"same")
    assert not blobs.delete(name, older_than=between)


@pytest.mark.parametrize("url", ["s3://", "ftp://host/x", "what://ever"])
def test_a_url_that_is_no_store_is_a_wrong_setting(url: str) -> None:
    with pytest.raises(SetupError) as caught:
        BlobStore(url)
    assert "AUTOGRADER_BLOBS_URL" in str(caught.value.fix)
    assert "\n" not in caught.value.message


# --- S3 -----------------------------------------------------------------------------------------


def test_a_bucket_that_is_not_there_is_unavailable_and_no_missing_blob(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    reach(monkeypatch, s3_server)
    blobs = BlobStore("s3://there-is-no-such-bucket/x")
    with pytest.raises(UnavailableError, match="there-is-no-such-bucket"):
        blobs.put(b"data")
    with pytest.raises(UnavailableError, match="there-is-no-such-bucket"):
        blobs.get(UNKNOWN)


def test_a_store_that_is_down_is_unavailable_until_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with start_s3() as server:
        reach(monkeypatch, server)
        blobs = BlobStore(f"s3://{server.make_bucket()}")
        server.stop()
        with pytest.raises(UnavailableError, match="the blob store did not take the data"):
            blobs.put(b"data")
        with pytest.raises(UnavailableError) as caught:
            blobs.get(UNKNOWN)
        assert "\n" not in caught.value.message
        server.start()
        # It came back without its buckets.
        again = BlobStore(f"s3://{server.make_bucket()}")
        assert again.get(again.put(b"data")) == b"data"


# --- a folder -----------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc which file a descriptor is")
def test_a_blob_is_named_once_its_bytes_are_on_the_disk_and_then_its_name_is_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced: list[tuple[str, list[str]]] = []
    fsync = os.fsync

    def spy(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        forced.append((path.name.partition("#")[0], named()))
        fsync(descriptor)

    def named() -> list[str]:
        return sorted(path.name for path in root.iterdir() if "#" not in path.name)

    root = tmp_path / "blobs"
    blobs = BlobStore(str(root))
    monkeypatch.setattr(os, "fsync", spy)
    data = [b"one", b"two"]
    names = [digest(one) for one in data]
    blobs.put_all(data)
    # What is forced, and which blobs can be seen by then: none before its bytes are safe.
    assert forced == [(names[0], []), (names[1], []), ("blobs", sorted(names))]
    forced.clear()
    # Another process may have stored it, and died before its fsync.
    blobs.put(b"one")
    assert [name for name, _ in forced] == [names[0], "blobs"]


def test_a_blob_that_a_power_cut_left_without_its_bytes_is_written_again(tmp_path: Path) -> None:
    blobs = BlobStore(str(tmp_path))
    name = blobs.put(b"all of it")
    (tmp_path / name).write_bytes(b"")
    blobs.put(b"all of it")
    assert blobs.get(name) == b"all of it"


def test_a_folder_that_is_gone_is_unavailable_and_no_missing_blob(tmp_path: Path) -> None:
    blobs = BlobStore(str(tmp_path / "blobs"))
    name = blobs.put(b"data")
    shutil.rmtree(tmp_path / "blobs")
    with pytest.raises(UnavailableError):
        blobs.get(name)


_PUT = """
import sys
from grader_service.errors import UnavailableError
from grader_service.storage.blobs import BlobStore
try:
    BlobStore(sys.argv[1]).put(b"x" * 100_000)
except UnavailableError:
    sys.exit(75)
"""


def test_a_full_disk_takes_nothing_and_leaves_nothing_behind(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PUT, str(tmp_path)],
        cwd=ROOT,
        check=False,
        # A file may not grow beyond it: what a full disk is to one process.
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000)),
    )
    assert done.returncode == 75
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
