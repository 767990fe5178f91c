"""Logs are found, read as strictly as they must be, and replaced whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from inspect_robots.log import read_eval_log

from grader_service.client.harvest.log_file import find_logs, read_log, write_log
from grader_service.errors import ConflictError, InputError
from tests.support.harness_logs import make_task, run


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return run(make_task(scenes=2, epochs=2), None, tmp_path_factory.mktemp("logs")).read_bytes()


@pytest.fixture
def path(tmp_path: Path, original: bytes) -> Path:
    path = tmp_path / "pour_1a2b.json"
    path.write_bytes(original)
    return path


def test_a_log_written_back_is_the_harness_own_bytes(path: Path, original: bytes) -> None:
    log = read_log(path)
    assert log.dialect == "0.60"
    write_log(log, log.value)
    assert path.read_bytes() == original
    assert list(path.parent.iterdir()) == [path]
    assert read_eval_log(str(path)).eval.task == "unregistered"


def test_the_dialect_shows_in_the_results(path: Path, original: bytes) -> None:
    value = json.loads(original)
    value["results"]["abstentions"] = {}
    path.write_text(json.dumps(value))
    assert read_log(path).dialect == "newest"


def test_a_replaced_log_keeps_its_permissions_and_the_link_that_leads_to_it(
    tmp_path: Path, path: Path
) -> None:
    path.chmod(0o640)
    link = tmp_path / "newest.json"
    link.symlink_to(path)
    log = read_log(link)
    write_log(log, log.value | {"error": "ünd"})
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert read_log(path).value["error"] == "ünd"


def test_a_log_that_changed_since_it_was_read_is_not_overwritten(path: Path) -> None:
    log = read_log(path)
    path.write_bytes(log.data + b"\n")
    with pytest.raises(ConflictError, match="was changed"):
        write_log(log, log.value | {"error": "x"})
    assert path.read_bytes() == log.data + b"\n"
    assert list(path.parent.iterdir()) == [path]


def test_a_value_that_is_no_json_leaves_the_log_as_it_was(path: Path, original: bytes) -> None:
    log = read_log(path)
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_log(log, log.value | {"error": float("nan")})
    assert path.read_bytes() == original
    assert list(path.parent.iterdir()) == [path]


def test_a_log_in_a_folder_that_is_gone_is_told_of(path: Path) -> None:
    log = read_log(path)
    path.rename(path.parent.parent / path.name)
    path.parent.rmdir()
    with pytest.raises(InputError, match="can't be written: No such file"):
        write_log(log, log.value)


@pytest.mark.parametrize("name", ["pour.live.json", "pour_1a2b.json.tmp"])
def test_a_log_of_a_run_that_goes_on_is_left_alone(path: Path, name: str) -> None:
    unfinished = path.rename(path.with_name(name))
    with pytest.raises(InputError, match="still being written"):
        read_log(unfinished)


def test_so_is_one_beside_its_temporary_file_or_one_that_says_so(path: Path) -> None:
    beside = path.with_name("pour_1a2b.json.tmp")
    beside.touch()
    with pytest.raises(InputError, match="still being written") as caught:
        read_log(path)
    assert caught.value.fix
    beside.unlink()
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"status": "started"}))
    with pytest.raises(InputError, match="still being written"):
        read_log(path)


def _set(*keys: Any, to: Any) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        for key in keys[:-1]:
            value = value[key]
        value[keys[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (_set("version", to=2), "its schema version is 2, not 1"),
        (_set("samples", to={}), "lacks the sections"),
        (_set("results", "metrics", to=None), "no metrics"),
        (_set("results", "abstentions", to=[]), "no metrics"),
        (_set("eval", "task", to=None), "names no task"),
        (_set("status", to=None), "does not tell how its run ended"),
        (_set("error", to=["x"]), "does not tell how its run ended"),
        (lambda value: value["samples"][1].pop("error"), "nothing tells how it ended"),
        (_set("samples", 0, to=[]), "names no scene"),
        (_set("samples", 0, "scene_id", to=7), "names no scene"),
        (_set("samples", 1, "reduced", to=None), "in scene 'scene-1' there are no scores"),
        (_set("samples", 1, "epochs", to=None), "there are no scores"),
        (_set("samples", 1, "epochs", 0, to=[]), "something other than numbers"),
        (_set("samples", 1, "epochs", 0, "operator", to="1"), "something other than numbers"),
        (_set("samples", 1, "epochs", 0, "operator", to=True), "something other than numbers"),
        (_set("samples", 1, "operator_notes", to=[None]), "operator_notes does not have one entry"),
        (_set("samples", 1, "judgement_sources", to=None), "judgement_sources does not have one"),
        (_set("samples", 1, "trial_metadata", 1, to=None), "metadata is no object"),
    ],
)
def test_a_log_of_an_unknown_shape_is_refused_with_what_is_strange(
    path: Path, change: Callable[[Any], None], problem: str
) -> None:
    value = json.loads(path.read_bytes())
    change(value)
    path.write_text(json.dumps(value))
    with pytest.raises(InputError, match=problem) as caught:
        read_log(path)
    assert str(path) in caught.value.message


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'"x"', b'{"a": 1, "a": 2}', b"NaN", b"\xff", b"[" * 9999]
)
def test_what_is_no_log_at_all_is_refused(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with pytest.raises(InputError, match=path.name):
        read_log(path)


def test_deep_transcripts_are_read(path: Path) -> None:
    value = json.loads(path.read_bytes())
    deep: Any = "x"
    for _ in range(150):
        deep = [deep]
    value["samples"][0]["policy_transcripts"][0] = deep
    path.write_text(json.dumps(value))
    assert read_log(path).value == value


def test_folders_are_searched_for_logs_and_other_files_are_passed_over(
    tmp_path: Path, path: Path, original: bytes
) -> None:
    for name in ("a/b/fold_3c.json", "a/run.live.json", "a/half_2.json.tmp"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(original)
    (tmp_path / "a/other.json").write_text('{"eval": {}}')
    (tmp_path / "a/broken.json").write_text("{")
    going_on: list[Path] = []
    found = list(find_logs([str(tmp_path), str(path)], unfinished=going_on.append))
    assert found == [tmp_path / "a/b/fold_3c.json", path]
    assert going_on == [tmp_path / "a/run.live.json"]
    # One that is named is not passed over: reading it says what is wrong with it.
    assert list(find_logs([str(tmp_path / "a/other.json")])) == [tmp_path / "a/other.json"]


def test_an_argument_that_names_no_log_is_told_of(tmp_path: Path) -> None:
    for name in ("", "nowhere.json"):
        with pytest.raises(InputError, match="there is no log at"):
            list(find_logs([str(tmp_path / name)]))
