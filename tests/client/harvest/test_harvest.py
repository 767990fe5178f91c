"""A log with its verdicts harvested is the log of a run that had waited for them."""

from __future__ import annotations

import itertools
import json
import random
import threading
import time
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from inspect_robots.registry import task as register_task
from inspect_robots.scorer import Score as UpstreamScore
from inspect_robots.scorer import reduce_scores
from kitchenbench.scoring import task_success

from grader_service.client.harvest.harvest import Harvest, Wishes, harvest
from grader_service.client.http import Client
from grader_service.errors import InputError, UnavailableError, UsageError
from grader_service.scoring import VLMScorer, criteria_met
from tests.support.harness_logs import (
    ABSTAINED,
    FAILURE,
    HUMAN,
    KINDS,
    SUCCESS,
    UNGRADED,
    FaultyPolicy,
    Place,
    Said,
    TableGrader,
    Verdicts,
    comparable,
    make_task,
    run,
    verdicts_at,
)

REDUCERS = ("mean", "max", "min", "median", "mode", "pass_at_2", "pass_at_5")


@pytest.fixture
def service() -> Iterator[Verdicts]:
    with verdicts_at() as verdicts:
        yield verdicts


def mixed(seed: int, scenes: int = 3, epochs: int = 5) -> dict[Place, Said]:
    """Return a table of verdicts of every kind."""
    chance = random.Random(seed)
    places = itertools.product((f"scene-{k}" for k in range(scenes)), range(epochs))
    return {place: chance.choice(KINDS) for place in places}


def harvested(service: Verdicts, path: Path, **wishes: Any) -> Harvest:
    with Client(service.url) as client:
        one = harvest(client, path, Wishes(**wishes))
    one.write()
    return one


def both(
    service: Verdicts, tmp_path: Path, table: Mapping[Place, Said], **options: Any
) -> tuple[Path, Path]:
    """Return the log of a run that waited, and that of one that did not."""
    abstain, fails_in = options.pop("abstain", False), options.pop("fails_in", ())
    task = make_task(scorers=("operator", task_success(), "episode_length"), **options)
    paths = []
    for waits in (True, False):
        grader = TableGrader(table, service, waits=waits, abstain=abstain)
        folder = tmp_path / ("waited" if waits else "deferred")
        paths.append(run(task, grader, folder, policy=FaultyPolicy(fails_in)))
    return paths[0], paths[1]


@pytest.mark.parametrize("abstain", [False, True], ids=["zero", "abstain"])
@pytest.mark.parametrize("reducer", REDUCERS)
def test_a_harvested_log_is_field_for_field_that_of_a_run_that_waited(
    service: Verdicts, tmp_path: Path, reducer: str, abstain: bool
) -> None:
    service.parked = {"scene-0-0", "scene-0-1", "scene-1-2"}
    # A policy that breaks leaves scenes with fewer epochs, which pass_at_5 then fails on.
    waited, deferred = both(
        service,
        tmp_path,
        mixed(seed=REDUCERS.index(reducer)),
        reducer=reducer,
        abstain=abstain,
        fails_in=(1, 7),
    )
    sources = {source for sample in samples(waited) for source in sample["judgement_sources"]}
    assert sources >= {"vlm", "embodiment", None}
    assert comparable(deferred) != comparable(waited)
    assert harvested(service, deferred, reducer=reducer).complete
    assert comparable(deferred) == comparable(waited)


def samples(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["samples"]
    return found


def as_newest(path: Path, reducer: str) -> None:
    """Rewrite a log of 0.60 as one of the abstention dialect, of which there is no release yet.

    As in that dialect's sources: the scorer `operator` gives null where there is no judgement but
    a `grading_error`; reducers leave nulls out, and a scene of nulls is null; a metric is the mean
    of the scenes that have a number, else null; `abstentions` counts nulls by scorer; a reducer
    that fails on what is left is an error of the scene and of the run; a run with a grading_error
    ends in an error that counts them.
    """
    log = json.loads(path.read_text())
    reasons, first = [], None
    for sample in log["samples"]:
        for k, epoch in enumerate(sample["epochs"]):
            error = sample["trial_metadata"][k].get("grading_error")
            if error:
                reasons.append(error)
                epoch["operator"] = None
        voted = [
            UpstreamScore(e["operator"]) for e in sample["epochs"] if e["operator"] is not None
        ]
        try:
            value = float(reduce_scores(reducer, voted).value) if voted else None
        except ValueError as failed:
            del sample["reduced"]["operator"]
            text = f"reducer {reducer!r} failed for scorer 'operator': {failed}"
            sample.update(status="error", error=text)
            first = first or text
        else:
            sample["reduced"]["operator"] = value
    scenes = [s["reduced"]["operator"] for s in log["samples"] if "operator" in s["reduced"]]
    numbers = [value for value in scenes if value is not None]
    del log["results"]["metrics"]["operator"]
    if scenes:
        mean = sum(map(Fraction, numbers)) / len(numbers) if numbers else None
        log["results"]["metrics"]["operator"] = None if mean is None else float(mean)
    log["results"]["abstentions"] = {"operator": len(reasons)} if reasons else {}
    ungraded = (
        f"{len(reasons)} of {sum(len(s['epochs']) for s in log['samples'])} trial(s) ungraded"
    )
    if first is not None:
        log.update(status="error", error=f"{first}; {ungraded}" if reasons else first)
    elif reasons:
        log.update(status="error", error=f"{ungraded}: grader failed ({reasons[0]})")
    path.write_text(json.dumps(log, indent=2, sort_keys=True))


@pytest.mark.parametrize("abstain", [False, True], ids=["zero", "abstain"])
@pytest.mark.parametrize("reducer", REDUCERS)
def test_in_the_dialect_of_abstentions_too(
    service: Verdicts, tmp_path: Path, reducer: str, abstain: bool
) -> None:
    table = mixed(seed=REDUCERS.index(reducer))
    waited, deferred = both(service, tmp_path, table, reducer=reducer, abstain=abstain)
    as_newest(waited, reducer)
    as_newest(deferred, reducer)
    assert comparable(deferred) != comparable(waited)
    assert harvested(service, deferred, reducer=reducer).complete
    assert comparable(deferred) == comparable(waited)
    assert json.loads(deferred.read_text())["status"] == "error"


def test_once_every_trial_is_graded_a_run_is_no_error_any_more(
    service: Verdicts, tmp_path: Path
) -> None:
    table = dict.fromkeys(mixed(0), SUCCESS)
    waited, deferred = both(service, tmp_path, table, abstain=True)
    as_newest(waited, "mean")
    as_newest(deferred, "mean")
    assert " of 15 trial(s) ungraded" in comparable(deferred)["error"]
    harvested(service, deferred, reducer="mean")
    assert comparable(deferred) == comparable(waited)
    assert comparable(deferred)["status"] == "success"


# --- again and again ------------------------------------------------------------------------------


def test_harvesting_twice_leaves_the_same_bytes(service: Verdicts, tmp_path: Path) -> None:
    _, deferred = both(service, tmp_path, mixed(1), reducer="max")
    harvested(service, deferred, reducer="max")
    data, stat = deferred.read_bytes(), deferred.stat()
    # What has no verdict is asked for again, and is no news: no reducer is needed for nothing.
    one = harvested(service, deferred)
    assert (one.changed, one.changes, one.complete) == (False, (), True)
    assert deferred.read_bytes() == data
    assert deferred.stat().st_mtime_ns == stat.st_mtime_ns
    harvested(service, deferred, reducer="max", again=True)
    assert deferred.read_bytes() == data


def test_verdicts_may_come_in_parts(service: Verdicts, tmp_path: Path) -> None:
    waited, deferred = both(service, tmp_path, mixed(2))
    later = {key: service.said.pop(key) for key in list(service.said)[::2]}
    service.waiting |= later.keys()
    one = harvested(service, deferred, reducer="mean")
    assert one.pending == len(later)
    assert not one.complete
    service.said |= later
    assert harvested(service, deferred, reducer="mean").complete
    assert comparable(deferred) == comparable(waited)


def test_a_verdict_that_comes_after_an_outage_replaces_the_lack_of_one(
    service: Verdicts, tmp_path: Path
) -> None:
    table = dict.fromkeys(mixed(0), UNGRADED)
    _, deferred = both(service, tmp_path, table)
    harvested(service, deferred, reducer="mean")
    service.said = dict.fromkeys(service.said, FAILURE)
    [first, *_] = harvested(service, deferred, reducer="mean").changes
    assert (first.before, first.after) == ("ungraded: provider_unavailable", "failure")
    waited, _ = both(service, tmp_path / "all", dict.fromkeys(table, FAILURE))
    assert comparable(deferred) == comparable(waited)


def test_a_verdict_that_changed_since_is_taken_over_only_on_request(
    service: Verdicts, tmp_path: Path
) -> None:
    table = dict.fromkeys(mixed(0), FAILURE)
    _, deferred = both(service, tmp_path, table)
    harvested(service, deferred, reducer="mean")
    for said in (HUMAN, ABSTAINED):
        service.said = dict.fromkeys(service.said, said)
        assert said is ABSTAINED or not harvested(service, deferred).changed
        harvested(service, deferred, reducer="mean", again=True)
        waited, _ = both(service, tmp_path / said[3], dict.fromkeys(table, said))
        assert comparable(deferred) == comparable(waited)


def test_waiting_ends_when_the_last_verdict_is_there(service: Verdicts, tmp_path: Path) -> None:
    waited, deferred = both(service, tmp_path, mixed(4))
    [late, *_] = service.said
    said = service.said.pop(late)
    service.waiting.add(late)
    timer = threading.Timer(0.2, service.said.__setitem__, (late, said))
    timer.start()
    one = harvested(service, deferred, reducer="mean", give_up=time.monotonic() + 60)
    timer.join()
    assert one.complete
    assert comparable(deferred) == comparable(waited)


def test_trials_without_a_verdict_are_counted_by_what_became_of_them(
    service: Verdicts, tmp_path: Path
) -> None:
    _, deferred = both(service, tmp_path, mixed(4))
    pending, cancelled, missing, rejected, *_ = list(service.said)
    service.waiting.add(pending)
    service.cancelled.add(cancelled)
    for gone in (pending, cancelled, missing, rejected):
        del service.said[gone]
    log = json.loads(deferred.read_text())
    for sample in log["samples"]:
        for metadata in sample["trial_metadata"]:
            if metadata["autograder"]["client_id"] == rejected:
                metadata["autograder"].update(state="rejected", reason="no such judge")
    deferred.write_text(json.dumps(log))
    one = harvested(service, deferred, reducer="mean")
    assert (one.pending, one.cancelled, one.missing, one.rejected) == (1, 1, 1, 1)
    left = [
        metadata["autograder"]["state"]
        for sample in samples(deferred)
        for metadata in sample["trial_metadata"]
    ]
    assert left.count("pending") == 3
    assert left.count("rejected") == 1


# --- scorers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("reducer", ["mean", "pass_at_2"])
def test_our_scorers_of_model_verdicts_are_run_again_and_the_errors_they_left_are_gone(
    service: Verdicts, tmp_path: Path, reducer: str
) -> None:
    """In 0.60.0 a scorer can't abstain: on a trial without a verdict it fails, and with it the run.

    Criteria are no part of what a grader writes on a live record, so only `vlm` can be compared.
    """
    table = mixed(5)
    paths = []
    for waits in (True, False):
        task = make_task(scorers=["episode_length", VLMScorer(), "operator"], reducer=reducer)
        grader = TableGrader(table, service, waits=waits)
        # A trial that breaks off replaces what its scene's error told before.
        paths.append(run(task, grader, tmp_path / str(waits), policy=FaultyPolicy((3,))))
    waited, deferred = paths
    assert comparable(deferred)["status"] == comparable(waited)["status"] == "error"
    harvested(service, deferred, reducer=reducer)
    assert comparable(deferred) == comparable(waited)
    service.said = dict.fromkeys(service.said, SUCCESS)


def test_a_run_that_only_waiting_made_an_error_is_a_success_again(
    service: Verdicts, tmp_path: Path
) -> None:
    table = dict.fromkeys(mixed(0), SUCCESS)
    task = make_task(scorers=[VLMScorer()], scenes=2, epochs=2)
    deferred = run(task, TableGrader(table, service), tmp_path, policy="noop")
    log = comparable(deferred)
    assert (log["status"], log["results"]["metrics"]) == ("error", {})
    harvested(service, deferred, reducer="mean")
    log = comparable(deferred)
    assert (log["status"], log["error"], log["results"]["metrics"]) == ("success", None, {"vlm": 1})
    assert [(s["status"], s["error"], s["reduced"]) for s in log["samples"]] == [
        ("success", None, {"vlm": 1.0})
    ] * 2


def test_criteria_are_read_from_the_receipts(service: Verdicts, tmp_path: Path) -> None:
    table = dict.fromkeys(mixed(0), FAILURE)
    task = make_task(scorers=["operator", criteria_met()], scenes=1, epochs=1)
    deferred = run(task, TableGrader(table, service), tmp_path, policy="noop")
    service.findings["scene-0-0"] = [
        {"id": "in_goal", "met": "yes", "required": True},
        {"id": "released", "met": "no", "required": True},
    ]
    harvested(service, deferred, reducer="mean")
    assert samples(deferred)[0]["epochs"] == [{"operator": 0.0, "criteria_met": 0.5}]


class Strict:
    """A scorer that can't do without a judgement, and wants to see the steps."""

    name = "strict"

    def __call__(self, record: Any, _target: Any) -> UpstreamScore:
        judged = {"success": 1, "failure": 0}[record.operator_judgement]
        return UpstreamScore(judged / len(record.steps))


class Lenient(Strict):
    """One that takes no judgement for a failure."""

    name = "lenient"

    def __call__(self, record: Any, _target: Any) -> UpstreamScore:
        return super().__call__(record, _target) if record.operator_judgement else UpstreamScore(0)


@pytest.mark.parametrize("scorer", [Strict(), Lenient()], ids=["strict", "lenient"])
def test_other_scorers_are_run_again_on_the_whole_records_when_named(
    service: Verdicts, tmp_path: Path, scorer: Any
) -> None:
    table = {place: SUCCESS if place[1] % 2 else FAILURE for place in mixed(0)}

    @register_task("tests/rerun")
    def factory() -> Any:
        return make_task(name="tests/rerun", scorers=["operator", scorer], reducer="max")

    paths = []
    for waits in (True, False):
        grader = TableGrader(table, service, waits=waits)
        paths.append(run(factory(), grader, tmp_path / str(waits)))
    waited, deferred = paths
    # Named after a first harvest, it is run again all the same.
    one = harvested(service, deferred, leave=("strict",))
    assert one.left_alone == (() if scorer.name == "strict" else ("lenient",))
    assert comparable(deferred) != comparable(waited)
    harvested(service, deferred, scorers=(scorer.name,))
    assert comparable(deferred) == comparable(waited)


def test_a_scorer_that_scored_no_waiting_trial_must_be_named(
    service: Verdicts, tmp_path: Path
) -> None:
    task = make_task(scorers=["operator", Strict()])
    deferred = run(task, TableGrader(mixed(0), service), tmp_path)
    data = deferred.read_bytes()
    with pytest.raises(InputError, match="'strict' scored none of the trials") as caught:
        harvested(service, deferred, reducer="mean")
    assert caught.value.fix
    assert "--scorer strict" in caught.value.fix
    assert deferred.read_bytes() == data


def test_a_scorer_that_is_none_of_the_logs_or_not_there_is_refused(
    service: Verdicts, tmp_path: Path
) -> None:
    deferred = run(
        make_task(scorers=["operator", Lenient()]), TableGrader(mixed(0), service), tmp_path
    )
    with pytest.raises(UsageError, match="no scores by 'vlm_2'"):
        harvested(service, deferred, reducer="mean", scorers=("vlm_2",))
    with pytest.raises(UsageError, match="no scorer named 'lenient'"):
        harvested(service, deferred, reducer="mean", scorers=("lenient",))


# --- logs that stay as they are -------------------------------------------------------------------


def test_nothing_is_written_when_the_service_is_away(service: Verdicts, tmp_path: Path) -> None:
    _, deferred = both(service, tmp_path, mixed(0))
    data = deferred.read_bytes()
    with Client("http://127.0.0.1:9") as client, pytest.raises(UnavailableError):
        harvest(client, deferred, Wishes(reducer="mean"))
    assert deferred.read_bytes() == data


def test_a_log_that_the_service_knows_nothing_of_says_how_to_submit_it(
    service: Verdicts, tmp_path: Path
) -> None:
    log = run(make_task(), None, tmp_path)
    with pytest.raises(InputError, match="knows no trial") as caught:
        harvested(service, log)
    assert f"autograder submit {log}" in str(caught.value.fix)


def test_a_log_of_a_cancelled_run_stays_cancelled(service: Verdicts, tmp_path: Path) -> None:
    class Impatient(FaultyPolicy):
        def act(self, observation: Any) -> Any:
            if self._trial == 6:
                raise KeyboardInterrupt
            return super().act(observation)

    table = dict.fromkeys(mixed(0), SUCCESS)
    logs: list[Path] = []
    for waits in (True, False):
        task = make_task(scorers=["operator"], reducer="pass_at_2")
        folder = tmp_path / str(waits)
        with pytest.raises(KeyboardInterrupt):
            run(task, TableGrader(table, service, waits=waits), folder, policy=Impatient())
        logs += folder.glob("*.json")
    waited, deferred = logs
    harvested(service, deferred, reducer="pass_at_2")
    assert comparable(deferred) == comparable(waited)
    assert comparable(deferred)["status"] == "cancelled"


class Foreign:
    """A scorer with the name of one that is known here, which never looks at a judgement."""

    name = "task_success"

    def __init__(self, value: bool) -> None:
        self.value = value

    def __call__(self, _record: Any, _target: Any) -> UpstreamScore:
        return UpstreamScore(self.value)


def test_a_scorer_that_only_has_the_name_of_a_known_one_is_not_overwritten(
    service: Verdicts, tmp_path: Path
) -> None:
    task = make_task(scorers=[Foreign(True), "episode_length"])
    path = run(task, TableGrader(mixed(0), service), tmp_path)
    data = path.read_bytes()
    with pytest.raises(InputError, match="is not the one that is known here") as refused:
        harvested(service, path, reducer="mean")
    assert refused.value.fix is not None
    assert "--leave task_success" in refused.value.fix
    assert path.read_bytes() == data


@pytest.mark.parametrize("name", ["task_success", "operator"])
def test_a_scorer_that_is_to_be_left_alone_is_left_alone_whatever_its_name(
    service: Verdicts, tmp_path: Path, name: str
) -> None:
    scorer: Any = Foreign(False) if name == "task_success" else "operator"
    path = run(make_task(scorers=[scorer]), TableGrader(mixed(0), service), tmp_path)

    def scores() -> Any:
        value = json.loads(path.read_text())
        return [sample["epochs"] for sample in value["samples"]], value["results"]["metrics"]

    before = scores()
    assert harvested(service, path, reducer="mean", leave=(name,)).changes
    assert scores() == before
