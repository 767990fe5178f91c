"""What holds for every run, however it was flown and however it was written down."""

from __future__ import annotations

import copy
import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grader_service.errors import TrajectoryError
from grader_service.records.canonical import canonical_bytes
from grader_service.records.trajectory import parse_trajectory
from grader_service.scoring.a320 import ScoreCard, aggregate, score_trajectory
from grader_service.scoring.a320.calls import EffectiveCommand
from grader_service.scoring.a320.ground_truth import read_ground_truth
from grader_service.scoring.a320.matching import constraints, count_order, match
from tests.scoring.a320.trajectories import (
    READABLE,
    Record,
    action,
    block,
    call,
    command,
    final,
    golden,
    meta,
    run,
    to_bytes,
)

if TYPE_CHECKING:
    from grader_service.scoring.a320.card import Status

thorough = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])

Pair = tuple[str, int]
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Flight:
    """A scenario and what was done in it."""

    procedure: list[tuple[bool, list[Pair]]]
    optional: list[Pair]
    forbidden: list[tuple[Pair, str]]
    calls: list[Record]
    checks: list[bool]

    @property
    def required(self) -> list[Pair]:
        return [pair for _, pairs in self.procedure for pair in pairs]

    def records(self) -> list[Record]:
        head = meta(
            [
                block(*(action(*pair) for pair in pairs), ordered=ordered)
                for ordered, pairs in self.procedure
            ],
            [action(*pair) for pair in self.optional],
            [action(*pair, severity=severity) for pair, severity in self.forbidden],
        )
        return run(head, *self.calls, end=final(*self.checks))

    def card(self) -> ScoreCard:
        return score_trajectory(self.records())

    def insert(self, index: int, *calls: Record) -> Flight:
        return replace(self, calls=[*self.calls[:index], *calls, *self.calls[index:]])


pairs = st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 1))
commands = pairs.map(lambda pair: command(*pair))
readings = st.sampled_from(["read_ecam", "read_state", "snapshot", "list_controls", "advance"]).map(
    call
)
failures = st.one_of(
    pairs.map(lambda pair: command(*pair, is_error=True)),
    st.sampled_from(["on", "", None, float("nan"), [1]]).map(lambda value: command("a", value)),
)
off_surface = st.sampled_from(["clear_failure", "inject_failure", "SET_CONTROL"]).map(
    lambda name: call(name, {"control": "a", "value": 0})
)
unrequired = st.tuples(st.just("spare"), st.integers(0, 1))
foreign = st.integers(0, 3).map(lambda value: command("elsewhere", value))


@st.composite
def flights(draw: st.DrawFn, *, judged: bool = False) -> Flight:
    blocks = st.tuples(st.booleans(), st.lists(pairs, min_size=1, max_size=3))
    severities = st.sampled_from(["dangerous", "anti_procedure"])
    calls = st.one_of(commands, commands, readings, failures, off_surface, foreign)
    return Flight(
        procedure=draw(st.lists(blocks, min_size=1, max_size=3)),
        optional=draw(st.lists(pairs, max_size=2)),
        forbidden=draw(st.lists(st.tuples(pairs, severities), max_size=2)),
        calls=draw(st.lists(calls, max_size=9)),
        checks=draw(st.lists(st.booleans(), min_size=int(judged), max_size=4)),
    )


def scores(card: ScoreCard) -> tuple[Any, ...]:
    """Return what no reading, failure or off-surface call may move."""
    return (*card.vector.values(), card.scalar, card.classes, card.matches)


@thorough
@given(flights())
def test_scores_stay_in_their_ranges(flight: Flight) -> None:
    card = flight.card()
    assert card.coverage is not None
    assert 0 <= card.coverage <= 1
    assert card.order is None or 0 <= card.order <= 1
    assert card.scalar is None or 0 <= card.scalar <= 1
    assert (card.scalar is None) == (card.end_state is None)


@thorough
@given(flights(judged=True))
def test_the_scalar_follows_from_the_vector(flight: Flight) -> None:
    card = flight.card()
    assert card.end_state is not None
    assert card.coverage is not None
    assert card.safety_anti_procedure is not None
    assert card.extraneous is not None
    if card.order is None:
        base = 0.4 * card.end_state + 0.6 * card.coverage
    else:
        base = 0.4 * card.end_state + 0.4 * card.coverage + 0.2 * card.order
    safety = 0 if card.safety_dangerous else 0.5**card.safety_anti_procedure
    tidy = 1 - 0.05 * min(card.extraneous, 5)
    assert card.scalar == pytest.approx(safety * tidy * base, abs=TOLERANCE)
    if card.safety_dangerous:
        assert card.scalar == 0


@thorough
@given(flights())
def test_every_command_has_one_class_and_matches_are_one_to_one(flight: Flight) -> None:
    card = flight.card()
    matched = [number for number in card.matches if number is not None]
    assert len(card.classes) == len(card.commands)
    assert len(card.matches) == len(flight.required)
    assert len(set(matched)) == len(matched) == card.classes.count("matched_required")
    assert card.coverage == pytest.approx(len(matched) / len(card.matches), abs=TOLERANCE)
    for slot, number in enumerate(card.matches):
        if number is not None:
            chosen = card.commands[number]
            assert (chosen.control, chosen.value) == flight.required[slot]
            assert chosen.required_index == slot


@thorough
@given(flights())
def test_coverage_is_the_multiset_overlap_of_required_and_executed(flight: Flight) -> None:
    card = flight.card()
    executed = Counter((each.control, int(each.value)) for each in card.commands)
    overlap = sum((Counter(flight.required) & executed).values())
    assert card.coverage == pytest.approx(overlap / len(flight.required), abs=TOLERANCE)


@thorough
@given(flights(), st.randoms(use_true_random=False))
def test_permuting_commands_moves_only_order_and_scalar(flight: Flight, random: Any) -> None:
    permuted = list(flight.calls)
    random.shuffle(permuted)
    before, after = flight.card(), replace(flight, calls=permuted).card()
    assert {**after.vector, "order": None} == {**before.vector, "order": None}
    assert sorted(after.classes) == sorted(before.classes)


@thorough
@given(flights(), st.lists(readings, min_size=1, max_size=3), st.integers(0, 9))
def test_readings_and_advancing_never_score(
    flight: Flight, calls: list[Record], index: int
) -> None:
    assert scores(flight.insert(index, *calls).card()) == scores(flight.card())


@thorough
@given(flights(), st.randoms(use_true_random=False))
def test_permuting_readings_never_scores(flight: Flight, random: Any) -> None:
    places = [index for index, each in enumerate(flight.calls) if each["name"].startswith("read_")]
    permuted = list(flight.calls)
    for place, source in zip(places, random.sample(places, len(places)), strict=True):
        permuted[place] = flight.calls[source]
    assert scores(replace(flight, calls=permuted).card()) == scores(flight.card())


@thorough
@given(flights(), st.one_of(failures, off_surface), st.integers(0, 9))
def test_failed_and_off_surface_calls_are_counted_and_never_score(
    flight: Flight, attempt: Record, index: int
) -> None:
    before, after = flight.card(), flight.insert(index, attempt).card()
    assert scores(after) == scores(before)
    assert before.signals is not None
    assert after.signals is not None
    errored = attempt["name"] == "set_control"
    assert after.signals == replace(
        before.signals,
        tool_calls_used=before.signals.tool_calls_used + 1,
        errored_commands=before.signals.errored_commands + errored,
        off_surface_attempts=before.signals.off_surface_attempts + (not errored),
    )


@thorough
@given(flights(), foreign, st.integers(0, 9))
def test_a_command_from_nowhere_in_the_scenario_only_costs_tidiness(
    flight: Flight, extra: Record, index: int
) -> None:
    assert_one_more_extraneous(flight.card(), flight.insert(index, extra).card())


@thorough
@given(flights(), st.data())
def test_a_surplus_required_command_at_the_end_only_costs_tidiness(
    flight: Flight, data: st.DataObject
) -> None:
    pair = data.draw(st.sampled_from(flight.required))
    spent = replace(
        flight,
        optional=[each for each in flight.optional if each != pair],
        forbidden=[each for each in flight.forbidden if each[0] != pair],
        calls=[*flight.calls, *(command(*each) for each in flight.required)],
    )
    after = spent.insert(len(spent.calls), command(*pair)).card()
    assert_one_more_extraneous(spent.card(), after)


def assert_one_more_extraneous(before: ScoreCard, after: ScoreCard) -> None:
    assert before.extraneous is not None
    assert after.vector == {**before.vector, "extraneous": before.extraneous + 1}
    if before.scalar is not None:
        assert after.scalar is not None
        assert after.scalar <= before.scalar


@thorough
@given(flights(), unrequired, st.integers(0, 9))
def test_optional_commands_are_free(flight: Flight, pair: Pair, index: int) -> None:
    flight = replace(flight, optional=[*flight.optional, pair])
    before, after = flight.card(), flight.insert(index, command(*pair)).card()
    assert (after.vector, after.scalar) == (before.vector, before.scalar)


@thorough
@given(flights(judged=True), unrequired, st.sampled_from(["dangerous", "anti_procedure"]))
def test_a_forbidden_command_leaves_at_most_half(flight: Flight, pair: Pair, severity: str) -> None:
    flight = replace(flight, forbidden=[*flight.forbidden, (pair, severity)])
    before, after = flight.card(), flight.insert(0, command(*pair)).card()
    assert before.scalar is not None
    assert after.scalar is not None
    assert after.scalar <= before.scalar / 2 + TOLERANCE


@thorough
@given(flights(judged=True))
def test_flying_the_procedure_as_written_is_a_perfect_run(flight: Flight) -> None:
    card = replace(flight, calls=[command(*pair) for pair in flight.required]).card()
    assert card.coverage == 1
    assert card.order in {1, None}
    assert (card.extraneous, card.safety_dangerous, card.safety_anti_procedure) == (0, 0, 0)
    assert card.end_state is not None
    assert card.scalar == pytest.approx(0.4 * card.end_state + 0.6, abs=TOLERANCE)


@thorough
@given(flights(judged=True), st.data())
def test_one_more_passed_check_never_lowers_the_scalar(flight: Flight, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(flight.checks) - 1))
    checks = [passed or place == index for place, passed in enumerate(flight.checks)]
    before, after = flight.card().scalar, replace(flight, checks=checks).card().scalar
    assert before is not None
    assert after is not None
    assert after >= before


@thorough
@given(flights())
def test_without_a_final_record_there_is_no_scalar(flight: Flight) -> None:
    assert score_trajectory(flight.records()[:-1]).scalar is None


@thorough
@given(flights(), st.data())
def test_the_spelling_of_a_value_changes_nothing(flight: Flight, data: st.DataObject) -> None:
    spellings: dict[int, list[Any]] = {
        0: [0, 0.0, -0.0, False, "0", " 0 ", "-0", "0e5"],
        1: [1, 1.0, True, "1", "01", "1e0", "+1"],
    }
    respelt = []
    for each in flight.calls:
        value = each["args"].get("value")
        if each["name"] == "set_control" and not each["is_error"] and value in (0, 1):
            spelling = data.draw(st.sampled_from(spellings[int(value)]))
            respelt.append(command(each["args"]["control"], spelling))
        else:
            respelt.append(each)
    assert replace(flight, calls=respelt).card().canonical() == flight.card().canonical()


@thorough
@given(flights())
def test_scoring_leaves_the_records_as_they_are(flight: Flight) -> None:
    records = flight.records()
    before = copy.deepcopy(records)
    score_trajectory(records).canonical()
    assert json.dumps(records) == json.dumps(before)  # NaN equals itself here


@thorough
@given(flights())
def test_matching_is_what_its_rule_says_and_order_counts_every_constraint(flight: Flight) -> None:
    required = read_ground_truth(flight.records()[0]["scenario"]).required
    effective = [
        EffectiveCommand(each.index, each.step, (each.control, each.value))
        for each in flight.card().commands
    ]
    taken: list[int | None] = []
    for slot in required:
        free = [
            number
            for number, each in enumerate(effective)
            if each.pair == slot.pair and number not in taken
        ]
        taken.append(free[0] if free else None)
    assert match(required, effective) == taken

    both = [
        (first, second)
        for first, second in ((taken[x], taken[y]) for x, y in constraints(required))
        if first is not None and second is not None
    ]
    held = sum(first < second for first, second in both)
    assert count_order(required, taken) == (held, len(both))


# --- how a run is written down ------------------------------------------------------------------


def assert_prefix_is_sound(data: bytes, length: int) -> None:
    prefix = data[:length]
    meta_end = data.index(b"\n")
    try:
        card = score_trajectory(parse_trajectory(prefix))
    except TrajectoryError:
        assert length < meta_end
        return
    if data[length:].strip() == b"":
        assert card.canonical() == score_trajectory(parse_trajectory(data)).canonical()
        return
    assert card.scalar is None
    survived = any(record["type"] == "provider_error" for record in parse_trajectory(prefix))
    assert card.status == ("provider_error" if survived else "invalid")


def test_every_prefix_of_a_file_is_the_same_run_an_unfinished_one_or_has_no_meta() -> None:
    failed = {"type": "provider_error", "step": 1, "error": "délai dépassé 🛩"}
    calls = [command("a", 0), call("clear_failure", {"text": "发电机\u2028"}), failed]
    data = to_bytes(run(meta([block(action("a", 0))]), *calls, end=final(True, text="é")))
    for length in range(len(data) + 1):
        assert_prefix_is_sound(data, length)


@thorough
@given(st.sampled_from([case for case in READABLE if case != "g25_apu_truncated_final"]), st.data())
def test_prefixes_of_recorded_runs_are_sound(case: str, data: st.DataObject) -> None:
    trajectory = golden(case)
    assert_prefix_is_sound(trajectory, data.draw(st.integers(0, len(trajectory))))


@thorough
@given(st.binary(max_size=200), st.binary(max_size=200))
def test_bytes_of_any_kind_give_records_or_a_trajectory_error(before: bytes, after: bytes) -> None:
    line = to_bytes([meta([block(action("a", 0))])])
    try:
        records = parse_trajectory(before + line + after)
    except TrajectoryError:
        return
    assert any(record["type"] == "meta" for record in records)


def reordered(value: Any, random: Any) -> Any:
    if isinstance(value, dict):
        items = [(key, reordered(item, random)) for key, item in value.items()]
        random.shuffle(items)
        return dict(items)
    if isinstance(value, list):
        return [reordered(item, random) for item in value]
    return value


@thorough
@given(st.sampled_from(READABLE), st.booleans(), st.booleans(), st.randoms(use_true_random=False))
def test_line_ends_blank_lines_escapes_and_key_order_change_no_byte(
    case: str, escaped: bool, crlf: bool, random: Any
) -> None:
    records = parse_trajectory(golden(case))
    end = b"\r\n" if crlf else b"\n"
    lines = []
    for record in records:
        text = json.dumps(reordered(record, random), ensure_ascii=escaped)
        lines += [text.encode() + end] + [b" \t" + end] * random.randrange(2)
    rewritten = score_trajectory(parse_trajectory(b"".join(lines)))
    assert rewritten.canonical() == score_trajectory(records).canonical()


# Who ran, when and where; and what a model said while it ran.
BESIDE_THE_POINT = [
    ("meta", "ts_utc"),
    ("meta", "scenario_path"),
    ("meta", "vendor_pin"),
    ("meta", "instructions_profile"),
    ("meta", "seed"),
    ("assistant", "provider_raw"),
    ("assistant", "text"),
    ("tool_call", "wall_ms"),
    ("tool_call", "result"),
    ("setup", "snapshot"),
    ("final", "snapshot"),
    ("final", "active_failures"),
]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
whole_runs = st.sampled_from(["g01_apu_full", "g18_apu_off_surface", "g22_apu_provider_error"])


@thorough
@given(whole_runs, st.sampled_from(BESIDE_THE_POINT), json_values)
def test_what_is_beside_the_point_changes_no_byte(
    case: str, place: tuple[str, str], value: Any
) -> None:
    kind, key = place
    records = parse_trajectory(golden(case))
    assert any(each["type"] == kind for each in records)
    changed = [{**each, key: value} if each["type"] == kind else each for each in records]
    assert score_trajectory(changed).canonical() == score_trajectory(records).canonical()


@thorough
@given(whole_runs, st.sampled_from(["run_id", "model"]), st.text(min_size=1))
def test_names_of_run_and_model_move_their_own_key_and_no_byte_of_the_bundle(
    case: str, key: str, name: str
) -> None:
    head, *rest = parse_trajectory(golden(case))
    adapter = {**head["adapter"], "model": name}
    changed = {**head, "run_id": name} if key == "run_id" else {**head, "adapter": adapter}
    before = score_trajectory([head, *rest]).to_dict()
    after = score_trajectory([changed, *rest]).to_dict()
    assert canonical_bytes(after["judge_bundle"]) == canonical_bytes(before["judge_bundle"])
    assert after[key] == name
    assert after == {**before, key: name}


# --- over many runs -----------------------------------------------------------------------------


@st.composite
def cards(draw: st.DrawFn) -> ScoreCard:
    fraction = st.integers(0, 12).map(lambda twelfths: round(twelfths / 12, 12))
    end_state = draw(st.none() | fraction)
    unscored: list[Status] = ["invalid", "provider_error"]
    judged: list[Status] = ["scored", "provider_error"]
    status = draw(st.sampled_from(unscored if end_state is None else judged))
    return ScoreCard(
        run_id=None,
        scenario_id=draw(st.sampled_from(["s", "t"])),
        model=draw(st.sampled_from(["m", "n"])),
        status=status,
        reason=None,
        coverage=draw(fraction),
        order=draw(st.none() | fraction),
        end_state=end_state,
        all_passed=None if end_state is None else draw(st.booleans()),
        safety_dangerous=draw(st.integers(0, 2)),
        scalar=None if end_state is None else draw(fraction),
    )


WHOLE_GROUP = (
    "scenario_id",
    "model",
    "n",
    "n_provider_error",
    "n_invalid",
    "n_dangerous",
    "provider_error_rate",
    "invalid_rate",
)


@thorough
@given(st.lists(cards(), max_size=12), st.booleans(), st.randoms(use_true_random=False))
def test_rows_do_not_depend_on_the_order_of_cards(
    many: list[ScoreCard], include_errors: bool, random: Any
) -> None:
    shuffled = random.sample(many, len(many))
    assert canonical_bytes(aggregate(shuffled, include_errors)) == canonical_bytes(
        aggregate(many, include_errors)
    )


@thorough
@given(st.lists(cards(), max_size=12))
def test_including_errors_changes_only_what_is_said_of_the_pool(many: list[ScoreCard]) -> None:
    without, with_errors = aggregate(many), aggregate(many, include_errors=True)
    assert sum(row["n"] for row in without) == len(many)
    for one, other in zip(without, with_errors, strict=True):
        assert one["n"] == one["n_scored"] + one["n_provider_error"] + one["n_invalid"]
        assert {key: one[key] for key in WHOLE_GROUP} == {key: other[key] for key in WHOLE_GROUP}


@thorough
@given(cards(), st.integers(1, 9))
def test_identical_runs_have_their_own_mean_and_no_spread(card: ScoreCard, times: int) -> None:
    card = replace(card, status="scored", end_state=1.0, scalar=card.coverage)
    (row,) = aggregate([card] * times)
    assert row["score_mean"] == card.scalar
    assert row["score_std"] == (None if times == 1 else 0)
