"""Verifying exports: a changed byte, a lost file and a verdict that does not follow are found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader_service.judging.verify import Difference, Verifier
from grader_service.records.canonical import canonical_bytes, digest, digest_of
from grader_service.records.judged import judged_trajectory
from grader_service.records.manifest import submitted_trajectory
from tests.support.exported import Exported, Files, exported, sealed

NAMES = [
    *("regraded", "repaired", "given up", "refused", "locked out", "abstained", "dark", "adopted"),
    *("cockpit", "no final line feed", "cut line", "blank end", "twin", "waiting"),
]
COCKPITS = [name for name in NAMES if name in ("cockpit", "no final line feed", "cut line")]


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return exported(tmp_path_factory.mktemp("home"))


def differences(files: Mapping[str, bytes]) -> list[Difference]:
    verifier = Verifier()
    verifier.add("t", files)
    return list(verifier.finish())


def found(files: Mapping[str, bytes]) -> set[tuple[str, str]]:
    """Return the files and words of what differs."""
    return {(it.path.removeprefix("t/"), it.what) for it in differences(files)}


def lines(files: Mapping[str, bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in files["verdicts.jsonl"].splitlines()]


def with_lines(files: Mapping[str, bytes], verdicts: list[dict[str, Any]]) -> Files:
    """Return the files with other verdicts and a manifest that fits them."""
    changed = b"".join(map(canonical_bytes, verdicts))
    return sealed(dict(files) | {"verdicts.jsonl": changed})


def with_receipt(
    files: Mapping[str, bytes], change: Callable[[dict[str, Any]], Any], number: int = 0
) -> Files:
    """Return the files with one receipt changed, and everything that refers to it made to fit."""
    verdicts = lines(files)
    change(verdicts[number]["receipt"])
    previous = None
    for verdict in verdicts:
        if verdict["receipt"] is not None:
            verdict["receipt"]["previous_receipt"] = previous
            previous = digest_of(verdict["receipt"])
    return with_lines(files, verdicts)


def test_every_ending_is_among_the_exports(exports: Exported) -> None:
    assert set(exports.trials) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_an_export_is_as_it_was_graded(exports: Exported, name: str) -> None:
    assert differences(exports.trials[name]) == []


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_changed_byte_in_any_file_is_found(exports: Exported, data: st.DataObject) -> None:
    files = dict(exports.trials[data.draw(st.sampled_from(NAMES))])
    name = data.draw(st.sampled_from(sorted(path for path in files if files[path])))
    content = bytearray(files[name])
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= data.draw(st.integers(1, 255))
    assert differences(files | {name: bytes(content)}) != []


@pytest.mark.parametrize("name", NAMES)
def test_each_file_that_is_cut_lost_or_added_is_found(exports: Exported, name: str) -> None:
    files = exports.trials[name]
    for lost in files:
        rest = {path: data for path, data in files.items() if path != lost}
        assert any(path == lost for path, _ in found(rest)), lost
        assert differences(files | {lost: files[lost] + b"\n"}) != []
        if files[lost]:
            assert differences(files | {lost: files[lost][:-1]}) != []
    for added in ("notes.txt", "frames/x.jpg", "columns/x.npy", "a/b", "record.json.bak"):
        assert found({**files, added: b""}) >= {(added, "sha256 by the manifest")}


def test_two_verdicts_that_changed_places_are_found(exports: Exported) -> None:
    first, second, *rest = lines(exports.trials["regraded"])
    swapped = found(with_lines(exports.trials["regraded"], [second, first, *rest]))
    assert {what for _, what in swapped} == {"previous_receipt"}


def test_a_verdict_that_was_taken_out_is_found_by_the_chain(exports: Exported) -> None:
    _, second, *rest = lines(exports.trials["regraded"])
    left = found(with_lines(exports.trials["regraded"], [second, *rest]))
    assert ("verdicts.jsonl:1", "previous_receipt") in left


def test_a_changed_frame_is_found_though_the_manifest_was_made_to_fit(exports: Exported) -> None:
    files = exports.trials["regraded"]
    [frame] = [
        path for path in files if lines(files)[0]["receipt"]["frames"][1]["sha256_received"] in path
    ]
    changed = files[frame] + b"\x00"
    kept_name = sealed({**files, frame: changed})
    assert ("verdicts.jsonl:1", "the last frame of camera 'front', as received") in found(kept_name)
    assert (frame, "sha256 by record.json") in found(kept_name)
    renamed = {path: data for path, data in files.items() if path != frame}
    sha256 = digest(changed)
    renamed[f"frames/{sha256}.jpg"] = changed
    old = Path(frame).stem
    renamed["record.json"] = (
        files["record.json"]
        .replace(old.encode(), sha256.encode())
        .replace(b'"size":%d' % len(files[frame]), b'"size":%d' % len(changed))
    )
    assert {("verdicts.jsonl:1", "record_digest")} < found(sealed(renamed))


def test_a_changed_column_or_record_is_found_though_the_manifest_was_made_to_fit(
    exports: Exported,
) -> None:
    files = exports.trials["repaired"]
    record = files["record.json"].replace(b"Repair the", b"Mend the")
    assert found(sealed({**files, "record.json": record})) == {
        ("verdicts.jsonl:1", "record_digest")
    }


@pytest.mark.parametrize("name", [*COCKPITS, "blank end"])
def test_the_judgement_can_be_taken_off_a_trajectory_again(exports: Exported, name: str) -> None:
    files = exports.trials[name]
    how = json.loads(files["manifest.json"])["as_submitted"]
    assert submitted_trajectory(files["trajectory.jsonl"], how) == exports.submitted[name]
    assert digest(exports.submitted[name]) == lines(files)[0]["receipt"]["record_digest"]


@pytest.mark.parametrize("name", COCKPITS)
@pytest.mark.parametrize("old", [b'"verdict":"success"', b'"source":"stub"', b'"receipt_digest":'])
def test_a_judgement_that_is_not_the_effective_verdict_is_found(
    exports: Exported, name: str, old: bytes
) -> None:
    files = exports.trials[name]
    old = old.replace(b"stub", b"human") if name == "cockpit" else old
    assert old in files["trajectory.jsonl"]
    changed = files["trajectory.jsonl"].replace(old, old[:-2] + b"x" + old[-1:])
    assert found(sealed({**files, "trajectory.jsonl": changed})) == {
        ("trajectory.jsonl", "the judgement record of the effective verdict")
    }


def test_a_judgement_without_its_line_feed_is_found(exports: Exported) -> None:
    files = exports.trials["cockpit"]
    cut = sealed({**files, "trajectory.jsonl": files["trajectory.jsonl"][:-1]})
    assert found(cut) == {("trajectory.jsonl", "size")}


def test_a_verdict_that_was_added_must_be_in_the_trajectory(exports: Exported) -> None:
    files = exports.trials["cut line"]
    human = lines(exports.trials["cockpit"])[1]
    assert ("trajectory.jsonl", "the judgement record of the effective verdict") in found(
        with_lines(files, [*lines(files), human])
    )


def test_a_changed_trajectory_is_found_by_its_receipt(exports: Exported) -> None:
    files = exports.trials["cut line"]
    changed = exports.submitted["cut line"].replace(b"apu", b"axu", 1)
    assert changed != exports.submitted["cut line"]
    exported_again = {
        **files,
        "trajectory.jsonl": files["trajectory.jsonl"].replace(b"apu", b"axu", 1),
    }
    assert judged_trajectory(changed, None) == changed
    assert found(sealed(exported_again)) == {("verdicts.jsonl:1", "record_digest")}


def set_to(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(receipt: dict[str, Any]) -> None:
        *path, last = key.split(".")
        target: Any = receipt
        for step in path:
            target = target[int(step) if step.isdigit() else step]
        target[int(last) if last.isdigit() else last] = value

    return change


FAILED = {"outcome": "graded", "verdict": "failure", "reason": None}
MESSAGE = "reply.body.choices.0.message.content"
FIRST = "the first frame of camera 'front'"


@pytest.mark.parametrize(
    ("name", "key", "value", "what"),
    [
        ("regraded", "schema", "receipt/2", "the receipt"),
        ("regraded", "round", -1, "the receipt"),
        ("regraded", "round", True, "the receipt"),
        ("regraded", "nonce", "0123456789aB", "the receipt"),
        ("regraded", "token", "t-0123", "the receipt"),
        ("regraded", "token", "t-0123456789abcdef", "outcome"),
        ("regraded", "token", None, "nonce and token"),
        ("regraded", "nonce", None, "nonce and token"),
        ("regraded", "trial", "another", "trial"),
        ("regraded", "record_digest", "0" * 64, "record_digest"),
        ("regraded", "rubric.text.title", "Other", "rubric.digest"),
        ("regraded", "rubric.text.decision", "none", "rubric.text"),
        ("regraded", "rubric.text.criteria.0.id", "other", "outcome"),
        ("regraded", "outcome", FAILED, "outcome"),
        ("regraded", "outcome", FAILED, "the verdict"),
        ("regraded", "outcome.reason", "timeout", "outcome"),
        ("regraded", "findings.0.met", "no", "findings"),
        ("regraded", "findings.0.required", False, "findings"),
        ("regraded", "findings.0.evidence", "nothing", "findings"),
        ("regraded", "findings", [], "findings"),
        ("regraded", "rationale", "for fun", "rationale"),
        ("regraded", "confidence", 0.01, "confidence"),
        ("regraded", "failure_mode", "dropped", "failure_mode"),
        ("regraded", MESSAGE, "GRADE: failure", "outcome"),
        ("regraded", "reply.body.choices.0.finish_reason", "length", "outcome"),
        ("regraded", "reply.wire", "anthropic.messages", "outcome"),
        ("regraded", "reply.wire", "text", "the receipt"),
        ("regraded", "reply", None, "an outcome without a usable reply"),
        ("regraded", "error", "it failed", "an outcome without a usable reply"),
        ("regraded", "frames.0.sha256_received", "0" * 64, f"{FIRST}, as received"),
        ("regraded", "frames.0.camera", "top", f"{FIRST.replace('front', 'top')}, by record.json"),
        ("repaired", "votes.0.outcome", FAILED, "votes[0].outcome"),
        ("repaired", f"votes.0.{MESSAGE}", "GRADE: success", "votes[0].outcome"),
        ("given up", "error", None, "outcome"),
        ("given up", MESSAGE, "GRADE: success", "outcome"),
        ("locked out", "error", None, "an outcome without a usable reply"),
        ("locked out", "outcome.reason", "bad luck", "an outcome without a usable reply"),
        ("locked out", "outcome", FAILED, "an outcome without a usable reply"),
        ("dark", "outcome.outcome", "abstained", "an outcome without a usable reply"),
        ("cockpit", "record_digest", "0" * 64, "record_digest"),
        ("twin", "reused_from", "a49430", "the receipt"),
    ],
)  # fmt: skip
def test_a_receipt_that_says_something_else_is_found(
    exports: Exported, name: str, key: str, value: Any, what: str
) -> None:
    changed = found(with_receipt(exports.trials[name], set_to(key, value)))
    assert what in {found_what for _, found_what in changed}


def test_receipts_of_a_trial_in_the_folder_of_another_are_found(exports: Exported) -> None:
    [twin] = lines(exports.trials["twin"])
    own, other = twin["receipt"]["trial"], lines(exports.trials["regraded"])[0]["receipt"]["trial"]
    verifier = Verifier()
    verifier.add(f"exported/{own}", exports.trials["twin"])
    assert verifier.differences == []
    verifier.add(f"exported/{other}", exports.trials["twin"])
    assert [it.what for it in verifier.differences] == ["trial"]


@pytest.mark.parametrize(
    ("name", "key", "value", "what"),
    [
        ("regraded", "verdict", "failure", "the verdict"),
        ("regraded", "outcome", "ungraded", "the verdict"),
        ("regraded", "primary", "yes", "the verdict"),
        ("regraded", "surprise", 1, "the verdict"),
        ("adopted", "verdict", "failure", "the verdict of the record"),
        ("adopted", "source", "console", "the verdict of the record"),
        ("cockpit", "receipt", None, "the verdict of the record"),
    ],
)
def test_a_verdict_that_does_not_follow_is_found(
    exports: Exported, name: str, key: str, value: Any, what: str
) -> None:
    first, *rest = lines(exports.trials[name])
    changed = found(with_lines(exports.trials[name], [first | {key: value}, *rest]))
    assert ("verdicts.jsonl:1", what) in changed


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def paths_of(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return where everything in a JSON value stands."""
    inside: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        inside = value.items()
    elif isinstance(value, list):
        inside = enumerate(value)
    return [path, *(found for key, item in inside for found in paths_of(item, (*path, key)))]


@settings(max_examples=300, deadline=None)
@given(name=st.sampled_from(["regraded", "repaired", "cockpit"]), place=st.integers(0), value=JSON)
def test_whatever_stands_in_a_receipt_is_a_difference_and_no_crash(
    exports: Exported, name: str, place: int, value: Any
) -> None:
    files = exports.trials[name]
    verdicts = lines(files)
    _, *places = paths_of(verdicts[0])
    *path, last = places[place % len(places)]
    target = verdicts[0]
    for step in path:
        target = target[step]  # type: ignore[index]  # a path of this very value
    target[last] = value  # type: ignore[index]
    changed = b"".join(map(canonical_bytes, verdicts))
    same = changed == files["verdicts.jsonl"]
    assert (differences({**files, "verdicts.jsonl": changed}) == []) is same


@pytest.mark.parametrize("name", ["regraded", "cockpit"])
@pytest.mark.parametrize("manifest", [b"", b"{", b"[]", b"null", b"{}", b'{"files": 3}', b"\xff"])
def test_a_manifest_that_is_none_is_found_and_the_rest_is_checked(
    exports: Exported, name: str, manifest: bytes
) -> None:
    files = {**exports.trials[name], "manifest.json": manifest}
    paths = {path for path, _ in found(files)}
    assert {"manifest.json", "verdicts.jsonl"} <= paths


@pytest.mark.parametrize(
    "how",
    [
        None,
        {},
        {"bytes": -1, "tail": ""},
        {"bytes": True, "tail": ""},
        {"bytes": 1.5, "tail": ""},
        {"bytes": 10**9, "tail": ""},
        {"bytes": 10, "tail": "xy"},
        {"bytes": 10, "tail": 5},
        {"bytes": 10, "tail": ""},
    ],
)
def test_a_manifest_that_does_not_lead_to_what_was_submitted_is_found(
    exports: Exported, how: Any
) -> None:
    files = exports.trials["cockpit"]
    manifest = json.loads(files["manifest.json"]) | {"as_submitted": how}
    assert any(
        path == "manifest.json" and what == "as_submitted"
        for path, what in found({**files, "manifest.json": canonical_bytes(manifest)})
    )


def test_a_verdict_that_was_taken_over_carries_the_first_trials_token_and_is_accepted(
    exports: Exported,
) -> None:
    [twin] = lines(exports.trials["twin"])
    first = lines(exports.trials["regraded"])[0]
    assert twin["receipt"]["reused_from"] == digest_of(first["receipt"])
    assert twin["receipt"]["token"] == first["receipt"]["token"]
    assert twin["receipt"]["trial"] != first["receipt"]["trial"]
    assert differences(exports.trials["twin"]) == []


@pytest.mark.parametrize("order", [["twin", "regraded"], ["regraded", "twin"]])
def test_a_verdict_that_was_taken_over_otherwise_than_it_was_given_is_found(
    exports: Exported, order: list[str]
) -> None:
    trials = dict(exports.trials)
    trials["twin"] = with_receipt(trials["twin"], set_to("request_id", "other"))
    verifier = Verifier()
    for name in order:
        verifier.add(name, trials[name])
    [difference] = verifier.finish()
    assert (difference.path, difference.what) == ("twin/verdicts.jsonl:1", "the answer taken over")
