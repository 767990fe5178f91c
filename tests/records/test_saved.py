"""What goes into a saved trial comes out of it, and what is no saved trial is refused."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader_service.errors import NotFoundError, RecordError, UnavailableError
from grader_service.records.canonical import canonical_bytes
from grader_service.records.npy import npy_bytes
from grader_service.records.saved import (
    MAX_FILES,
    FrameRef,
    Planned,
    load_trial,
    parse_record_json,
    save_trial,
    with_frames,
)
from grader_service.records.trial import Observation, Scene, Target, TrialRecord
from tests.records.examples import (
    PLAIN_SCENE,
    assert_same,
    odd_trial,
    record_of,
    rollout,
    thorough,
    through_disk,
)

FRONT = FrameRef("front", "first", "a" * 64, "image/png", 120)
PARKED = FrameRef("side", "parked", "b" * 64, "image/jpeg", 0)


def edited(files: dict[str, bytes], **changes: Any) -> bytes:
    """Return the record.json with sections replaced; None removes one."""
    document = json.loads(files["record.json"]) | changes
    return canonical_bytes({key: value for key, value in document.items() if value is not ...})


def test_a_record_of_odd_values_comes_back_exactly() -> None:
    record, scene = odd_trial()
    saved = through_disk(record, scene)
    assert_same(record, saved.record)
    assert_same(scene, saved.scene)


@pytest.mark.parametrize("steps", [0, 1, 2, 17, 200])
def test_a_rollout_comes_back_exactly(steps: int) -> None:
    record = rollout(steps)
    saved = through_disk(record)
    assert len(saved.record.steps) == steps
    assert_same(record, saved.record)


def test_saving_what_was_loaded_gives_the_same_bytes() -> None:
    record, scene = odd_trial()
    for files in (save_trial(record, scene), save_trial(rollout(64), PLAIN_SCENE)):
        again = load_trial(files.__getitem__)
        assert save_trial(again.record, again.scene) == files


def test_what_was_planned_and_seen_is_kept() -> None:
    planned = Planned(epochs=5, reducer="pass_at_2", scorers=("operator", "mine"))
    saved = through_disk(
        record_of({}), frames=[FRONT, PARKED], instruction_used="fold it", planned=planned
    )
    assert saved.frames == (FRONT, PARKED)
    assert saved.instruction_used == "fold it"
    assert saved.planned == planned
    bare = through_disk(record_of({}))
    assert (bare.frames, bare.instruction_used, bare.planned) == ((), None, Planned())


def test_images_are_left_to_the_frames() -> None:
    record = rollout(3)
    seen = Observation(images={"front": np.zeros((4, 4, 3), np.uint8)}, state={"q": np.ones(1)})
    record.parked_observation = seen
    parked = through_disk(record).record.parked_observation
    assert parked is not None
    assert parked.images == {}
    assert_same(seen.state, parked.state)


def test_attributes_of_a_newer_harness_are_kept() -> None:
    record = record_of({})
    record.energy_j = 3.0  # type: ignore[attr-defined]
    assert_same(vars(through_disk(record).record)["energy_j"], 3.0)


def test_the_digest_is_that_of_the_canonical_record_json() -> None:
    files = save_trial(record_of({"info": {"distance": 0.5}}), PLAIN_SCENE)
    loose = json.dumps(json.loads(files["record.json"]), indent=2).encode()
    sha256 = hashlib.sha256(files["record.json"]).hexdigest()
    assert load_trial({**files, "record.json": loose}.__getitem__).digest == sha256
    assert parse_record_json(loose).digest == sha256
    assert parse_record_json(loose).canonical == files["record.json"]


def test_a_number_means_the_same_however_it_is_written() -> None:
    files = save_trial(record_of(metadata={"n": 1}), PLAIN_SCENE)
    written = files["record.json"].replace(b'{"n":1}', b'{"n":1.0}')
    assert written != files["record.json"]
    loaded = load_trial({"record.json": written}.__getitem__)
    assert_same(loaded.record.metadata, {"n": 1})
    assert loaded.digest == hashlib.sha256(files["record.json"]).hexdigest()


def test_long_trials_keep_their_numbers_in_columns_named_by_content() -> None:
    files = save_trial(rollout(5000), PLAIN_SCENE)
    head = parse_record_json(files["record.json"])
    assert {f"columns/{sha256}.npy" for sha256 in head.columns} == files.keys() - {"record.json"}
    for sha256 in head.columns:
        data = files[f"columns/{sha256}.npy"]
        assert hashlib.sha256(data).hexdigest() == sha256
    assert len(files["record.json"]) < 60_000


def test_columns_are_readable_by_numpy(tmp_path: Any) -> None:
    record = rollout(300)
    for path, data in save_trial(record, PLAIN_SCENE).items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(data)
    arrays = [np.load(path, allow_pickle=False) for path in tmp_path.glob("columns/*.npy")]
    actions = np.stack([step.action.data for step in record.steps])
    assert any(array.shape == (300, 14) and (array == actions).all() for array in arrays)


def test_columns_of_steps_are_read_when_a_step_is() -> None:
    files = save_trial(rollout(300), PLAIN_SCENE)
    read: list[str] = []

    def reading(path: str) -> bytes:
        read.append(path)
        return files[path]

    saved = load_trial(reading)
    assert len(saved.record.steps) == 300
    assert read == ["record.json"]
    assert saved.record.steps[-1].result.termination_reason == "success"
    assert set(read) == set(files)


def test_checking_reads_every_column_at_once() -> None:
    files = save_trial(rollout(300), PLAIN_SCENE)
    path = next(path for path in files if path.startswith("columns/"))
    del files[path]
    load_trial(files.__getitem__)
    with pytest.raises(RecordError, match=r"columns/.* is missing"):
        load_trial(files.__getitem__, check=True)


def test_a_step_that_was_read_stays_the_same_object() -> None:
    steps = through_disk(rollout(40)).record.steps
    steps[3].result.info["mark"] = True  # type: ignore[index]
    assert steps[3] is steps[-37] is list(steps)[3] is steps[2:5][1]
    assert steps[4].observation is steps[3].result.observation


def test_a_verdict_leaves_the_columns_of_a_trial_as_they_are() -> None:
    record = rollout(900)
    before = save_trial(record, PLAIN_SCENE)
    loaded = load_trial(before.__getitem__)
    loaded.record.events.append(record.events[0])
    after = save_trial(loaded.record, loaded.scene)
    assert after.keys() == before.keys()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"pose": {"grip": {1, 2}}}, r"record.metadata\['pose'\]\['grip'\] is a builtins.set"),
        ({"log": [b"", object()]}, r"record.metadata\['log'\]\[1\] is a builtins.object"),
        ({"mask": np.array([None])}, r"record.metadata\['mask'\] has the numpy type object"),
        ({"x": np.zeros(1, [("a", "f8")])}, "numpy type"),
        (dict.fromkeys(["\ud800", "\udfff"]), "differ only in lone surrogates"),
        ({"n": 10**5000}, "too large an integer"),
    ],
)
def test_what_cannot_be_saved_exactly_is_named_with_its_place(value: Any, message: str) -> None:
    with pytest.raises(RecordError, match=message) as caught:
        save_trial(record_of(metadata=value), PLAIN_SCENE)
    assert caught.value.fix


def test_a_step_that_cannot_be_saved_is_named_with_its_place() -> None:
    record = record_of({"info": {"hits": [1]}}, {"info": {"hits": {2}}})
    with pytest.raises(RecordError, match=r"steps\[\*\].info\['hits'\] is a builtins.set"):
        save_trial(record, PLAIN_SCENE)


def test_endless_nesting_is_refused_when_saving() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(RecordError, match="nested"):
        save_trial(record_of(metadata={"loop": value}), PLAIN_SCENE)


def test_lone_surrogates_become_replacement_characters() -> None:
    scene = Scene("pad-\ud800", "push", Target("\udfff"))
    saved = through_disk(TrialRecord("pad-\ud800", 0, None, metadata={"\ud800": "\udfff"}), scene)
    assert saved.record.scene_id == saved.scene.id == "pad-\ufffd"
    assert saved.record.metadata == {"\ufffd": "\ufffd"}
    assert saved.scene.target == Target("\ufffd")


def test_frames_are_filled_in_where_a_record_lists_none() -> None:
    bare = save_trial(record_of({}), PLAIN_SCENE)["record.json"]
    listed = save_trial(record_of({}), PLAIN_SCENE, frames=[FRONT, PARKED])["record.json"]
    assert with_frames(bare, [FRONT, PARKED]) == listed
    assert with_frames(edited({"record.json": bare}, frames=...), [FRONT, PARKED]) == listed
    assert with_frames(listed, [FRONT, PARKED]) == listed
    with pytest.raises(RecordError, match="other frames"):
        with_frames(listed, [FRONT])


BARE = save_trial(record_of({"info": {"distance": 0.5}}), PLAIN_SCENE)
FRAME = {"camera": "a", "phase": "first", "sha256": "a" * 64, "media_type": "x", "size": 1}
TABLE = {"count": 1, "columns": {}}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"null",
        b"{}",
        b'{"schema": "trial-record/2"}',
        b'{"schema": "trial-record/1"}',
        b'{"schema": "trial-record/1", "schema": "trial-record/1"}',
        b'{"schema": "trial-record/1", "n": NaN}',
        b'{"schema": "trial-record/1", "n": 1e999}',
        b"[" * 100_000,
        b'{"a":' * 5_000,
        b'{"schema": "trial-record/1", "n": ' + b"9" * 5_000 + b"}",
        edited(BARE, record=...),
        edited(BARE, record=[]),
        edited(BARE, record={"scene_id": 1, "epoch": 0, "seed": 0, "metadata": {}}),
        edited(BARE, record={"scene_id": "a", "epoch": True, "seed": 0, "metadata": {}}),
        edited(BARE, record={"scene_id": "a", "epoch": 0, "metadata": {}}),
        edited(BARE, record={"scene_id": "a", "epoch": 0, "seed": 0, "metadata": []}),
        edited(BARE, record={"scene_id": "a", "epoch": 0, "seed": 0, "metadata": {}, "__x": 1}),
        edited(BARE, record={"scene_id": "a", "epoch": 0, "seed": 0, "metadata": {"$x": 1}}),
        edited(BARE, scene=...),
        edited(BARE, scene={"id": "a", "instruction": None, "metadata": {}}),
        edited(BARE, scene={"id": "a", "instruction": "b", "metadata": {}, "extra": 1}),
        edited(BARE, scene={"id": "a", "instruction": "b", "metadata": {}, "target": {"x": 1}}),
        edited(BARE, scene={"id": "a", "instruction": "b", "metadata": {}, "target": "x"}),
        edited(BARE, steps=...),
        edited(BARE, steps={"chained": 1, "steps": TABLE, "observations": TABLE}),
        edited(BARE, steps={"chained": True, "steps": TABLE, "observations": TABLE}),
        edited(BARE, events=...),
        edited(BARE, events={"count": -1, "columns": {}}),
        edited(BARE, events={"count": 1.5, "columns": {}}),
        edited(BARE, events=TABLE),
        edited(BARE, inference_latencies=...),
        edited(BARE, parked=[]),
        edited(BARE, frames=[FRAME | {"phase": "middle"}]),
        edited(BARE, frames=[FRAME | {"phase": []}]),
        edited(BARE, frames=[FRAME | {"sha256": "A" * 64}]),
        edited(BARE, frames=[FRAME | {"size": -1}]),
        edited(BARE, frames=[FRAME | {"size": True}]),
        edited(BARE, frames=["front"]),
        edited(BARE, frames=5),
        edited(BARE, frames={"front": FRAME}),
        edited(BARE, planned=...),
        edited(BARE, planned={"epochs": "5", "scorers": []}),
        edited(BARE, planned={"epochs": 5, "scorers": [1]}),
        edited(BARE, instruction_used=5),
    ],
)
def test_what_is_no_record_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError):
        load_trial({"record.json": data}.__getitem__, check=True)


@pytest.mark.parametrize("count", [10**7, 10**9, 2**63, 10**40])
@pytest.mark.parametrize("table", ["events", "inference_latencies", "steps", "observations"])
def test_a_count_of_rows_alone_takes_no_memory(table: str, count: int) -> None:
    document = json.loads(BARE["record.json"])
    holder = document if table in document and table != "steps" else document["steps"]
    forged = [holder[table] | {"count": count}, {"count": count, "columns": {}}]
    for holder[table] in forged:
        files = {**BARE, "record.json": json.dumps(document).encode()}
        tracemalloc.start()
        try:
            with pytest.raises(RecordError):
                load_trial(files.__getitem__, check=True)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 2_000_000


def test_a_missing_record_is_told_however_its_reader_says_so() -> None:
    for missing in (KeyError("record.json"), FileNotFoundError(), NotFoundError("no blob")):

        def read(_: str, error: Exception = missing) -> bytes:
            raise error

        with pytest.raises(RecordError, match=r"record\.json is missing"):
            load_trial(read)


def test_a_store_that_is_away_is_no_malformed_record() -> None:
    def read(_: str) -> bytes:
        raise UnavailableError("the blob store is not there")

    with pytest.raises(UnavailableError):
        load_trial(read)


@pytest.mark.parametrize(
    "column",
    [
        b"",
        b"\x93NUMPY\x01\x00",
        npy_bytes(np.arange(300.0)),
        npy_bytes(np.zeros((300, 15))),
        npy_bytes(np.zeros((299, 14))),
        npy_bytes(np.zeros((300, 14)))[:-8],
        npy_bytes(np.zeros((300, 14))).replace(b"(300, 14)", b"(900000000, 14)"),
        npy_bytes(np.zeros((300, 14))).replace(b"'<f8'", b"'|O8'"),
    ],
)
def test_another_column_under_the_name_of_the_right_one_is_refused(column: bytes) -> None:
    files = save_trial(rollout(300), PLAIN_SCENE)
    path = max(files, key=lambda path: len(files[path]))
    with pytest.raises(RecordError, match="does not have the content"):
        load_trial({**files, path: column}.__getitem__, check=True)


def test_a_column_that_does_not_fit_its_steps_is_refused_although_its_digest_fits() -> None:
    files = save_trial(rollout(300), PLAIN_SCENE)
    path = max(files, key=lambda path: len(files[path]))
    for column in (npy_bytes(np.zeros((299, 14))), npy_bytes(np.array(1.0)), b"not an array"):
        sha256 = hashlib.sha256(column).hexdigest()
        record = files["record.json"].replace(path[8:72].encode(), sha256.encode())
        others = {**files, "record.json": record, f"columns/{sha256}.npy": column}
        with pytest.raises(RecordError):
            load_trial(others.__getitem__, check=True)


def test_paths_in_place_of_digests_are_refused() -> None:
    column = {"array": {"$column": "../../etc/passwd"}, "as": "rows"}
    data = edited(BARE, inference_latencies={"count": 1, "columns": {"seconds": column}})
    asked: list[str] = []

    def read(path: str) -> bytes:
        asked.append(path)
        return {"record.json": data}[path]

    with pytest.raises(RecordError, match="sha256"):
        parse_record_json(data)
    with pytest.raises(RecordError, match="sha256"):
        load_trial(read)
    assert asked == ["record.json"]


ODD = save_trial(*odd_trial(), frames=[FRONT])
json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from(["", "dict", "float", "<f8", "O", "AAAA", "a" * 64]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["$np", "$array", "$dict", "$column", "inline", "array", "as", "count"]
            ),
            inner,
            max_size=2,
        ),
    ),
    max_leaves=4,
)


def places(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value inside of a JSON value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, item in inside:
        found.append((*above, key))
        if isinstance(item, dict | list):
            found += places(item, (*above, key))
    return found


PLACES = places(json.loads(ODD["record.json"]))


@thorough
@given(st.sampled_from(PLACES), st.one_of(st.just(...), json_values))
def test_any_damage_of_a_record_is_refused_as_such_or_does_no_harm(
    place: tuple[Any, ...], value: Any
) -> None:
    document = json.loads(ODD["record.json"])
    holder = document
    for key in place[:-1]:
        holder = holder[key]
    if value is ...:
        del holder[place[-1]]
    else:
        holder[place[-1]] = value
    files = {**ODD, "record.json": canonical_bytes(document)}
    with contextlib.suppress(RecordError):
        load_trial(files.__getitem__, check=True)


@pytest.mark.parametrize("quantities", [MAX_FILES - 2, MAX_FILES, 87])
def test_a_robot_of_many_quantities_comes_back_exactly_and_fits_into_a_submission(
    quantities: int,
) -> None:
    noise = np.random.default_rng(0)
    record = rollout(100)
    record.steps = [
        replace(
            step,
            observation=replace(
                step.observation,
                state={f"joint_{number}": noise.random(1) for number in range(quantities)},
            ),
        )
        for step in record.steps
    ]
    files = save_trial(record, PLAIN_SCENE)
    # A service takes 64 parts: these, the part `trial`, and frames.
    assert len(files) <= MAX_FILES + 1
    assert_same(record, load_trial(files.__getitem__, check=True).record)
    judged = copy.copy(record)
    judged.operator_note = "seen"
    assert {*save_trial(judged, PLAIN_SCENE)} == {*files}
