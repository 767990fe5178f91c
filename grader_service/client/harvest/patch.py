"""Verdicts written into a log, and every number in it that follows from them."""

from __future__ import annotations

import copy
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grader_service.client.harvest.errors_told import (
    reducer_failed,
    run_state,
    scene_state,
    scorer_failed,
)
from grader_service.client.harvest.log_file import LogFile
from grader_service.client.harvest.log_trials import MARKER, LogTrial, trials_of
from grader_service.client.harvest.reducer import finite, reduced
from grader_service.errors import InputError
from grader_service.records.judged import apply_verdict
from grader_service.records.saved import SavedTrial
from grader_service.records.trial import TrialRecord
from grader_service.records.verdict import DEFINITIVE_SOURCES, Verdict
from grader_service.scoring import Scorer, ScorerError, value_to_float


@dataclass(frozen=True, slots=True)
class Answer:
    """What the service says of a trial.

    `verdict` is None where the log's own stays. `run` and `id` are what the service calls them;
    `parked` says whether the judge saw frames of the parked robot; `saved` is the whole trial,
    where scorers need more than its verdict.
    """

    trial: LogTrial
    run: str
    id: str
    verdict: Verdict | None
    parked: bool = False
    saved: SavedTrial | None = None


@dataclass(frozen=True, slots=True)
class Rescoring:
    """How the numbers of a log come about, by the scorers' names.

    `of_verdict` need a trial's verdict alone, `of_record` its whole record.
    """

    reducer: str
    of_verdict: Mapping[str, Scorer]
    of_record: Mapping[str, Scorer]

    @property
    def names(self) -> list[str]:
        return [*self.of_verdict, *self.of_record]


def patched(log: LogFile, answers: Sequence[Answer], rescoring: Rescoring) -> dict[str, Any]:
    """Return the log's value with the answers in it: what a run that had waited would have saved.

    Raises ScorerError for a scorer of records that fails, InputError for scores that can't be
    reduced again because the log does not hold all of them.
    """
    value = copy.deepcopy(log.value)
    ran = [_epochs_of(log, number) for number in range(len(value["samples"]))]
    failures: dict[int, list[str]] = {}
    for answer in answers:
        told = _patch_trial(value, answer, rescoring)
        failures.setdefault(answer.trial.sample, []).extend(told)
    for number, told in failures.items():
        before, after = log.value["samples"][number], value["samples"][number]
        after["status"], after["error"] = scene_state(
            before,
            after,
            ran=ran[number],
            scorers=told,
            reducers=_reduce(log, after, rescoring),
            interrupted=log.value["error"] if log.value["status"] == "cancelled" else None,
        )
    _total(value, rescoring.names)
    value["status"], value["error"] = run_state(log.value, value, ran=ran, rescored=rescoring.names)
    finished: dict[str, Any] = _without_nonfinite(value)
    return finished


def _epochs_of(log: LogFile, sample: int) -> list[int]:
    """Return the epochs of a scene that ran to their end."""
    return [trial.epoch for trial in trials_of(log) if trial.sample == sample]


def _patch_trial(value: dict[str, Any], answer: Answer, rescoring: Rescoring) -> list[str]:
    """Write one trial's verdict and scores; return what newly failed."""
    trial, sample = answer.trial, value["samples"][answer.trial.sample]
    scores = sample["epochs"][trial.epoch]
    told: list[str] = []
    if answer.verdict is not None:
        record = apply_verdict(trial.record(), answer.verdict)
        _write_verdict(sample, answer, answer.verdict, record)
        told += _score_verdict(trial, scores, record, rescoring)
    if answer.saved is not None:
        _score_record(answer, answer.saved, scores, rescoring)
    return told


def _score_verdict(
    trial: LogTrial, scores: dict[str, Any], record: TrialRecord, rescoring: Rescoring
) -> list[str]:
    told = []
    for name, scorer in rescoring.of_verdict.items():
        score = scorer(record, None)
        try:
            scores[name] = value_to_float(score.value, dialect=trial.log.dialect)
        except TypeError as error:
            # In dialect 0.60 a scorer can't abstain: the harness takes it for broken.
            if scores.pop(name, None) is not None:
                told.append(scorer_failed(name, error))
    return told


def _score_record(
    answer: Answer, saved: SavedTrial, scores: dict[str, Any], rescoring: Rescoring
) -> None:
    trial = answer.trial
    record = apply_verdict(saved.record, answer.verdict)
    for name, scorer in rescoring.of_record.items():
        try:
            score = scorer(record, saved.scene.target)
            scores[name] = value_to_float(score.value, dialect=trial.log.dialect)
        except Exception as error:
            problem = f"failed on scene {trial.scene_id!r}, epoch {trial.epoch}: {error!r}"
            raise ScorerError(name, problem) from error


def _write_verdict(
    sample: dict[str, Any], answer: Answer, verdict: Verdict, record: TrialRecord
) -> None:
    judged = [event for event in record.events if event.kind == "operator"]
    source = judged[-1].data["source"] if judged and record.operator_judgement is not None else None
    metadata = record.metadata | {
        MARKER: {
            "client_id": answer.trial.client_id,
            "run": answer.run,
            "trial": answer.id,
            "state": "done",
            "outcome": verdict.outcome,
            "reason": verdict.reason,
        }
    }
    graded = verdict.outcome == "graded" and verdict.source not in DEFINITIVE_SOURCES
    if graded and answer.parked:
        metadata["graded_frames"] = "parked"
    epoch = answer.trial.epoch
    sample["operator_judgements"][epoch] = record.operator_judgement
    sample["judgement_sources"][epoch] = source
    sample["operator_notes"][epoch] = record.operator_note
    sample["trial_metadata"][epoch] = metadata


def _reduce(log: LogFile, sample: dict[str, Any], rescoring: Rescoring) -> dict[str, str | None]:
    """Reduce a scene's scores anew; return by scorer how that failed, if it did."""
    told: dict[str, str | None] = {}
    for name in rescoring.names:
        told[name] = None
        values = [epoch[name] for epoch in sample["epochs"] if name in epoch]
        sample["reduced"].pop(name, None)
        if not values:
            continue
        if None in values and log.dialect == "0.60":
            raise InputError(
                f"{log.path}: not all scores of {name!r} in scene {sample['scene_id']!r} are known",
                fix=f"leave out --scorer {name} until every trial has its verdict",
            )
        try:
            sample["reduced"][name] = reduced(rescoring.reducer, values, log.dialect)
        except (ValueError, TypeError, ArithmeticError) as error:
            told[name] = reducer_failed(rescoring.reducer, name, error)
    return told


def _total(value: dict[str, Any], names: Sequence[str]) -> None:
    """Take the means over scenes anew, and in the newest dialect the counts of abstentions."""
    results, samples = value["results"], value["samples"]
    newest = "abstentions" in results
    for name in names:
        values = [sample["reduced"][name] for sample in samples if name in sample["reduced"]]
        results["metrics"].pop(name, None)
        if values:
            results["metrics"][name] = _mean(values, leave_out=newest)
    if not newest:
        return
    # Some writers list the scorers that never abstained, others leave them out.
    with_zeros = 0 in results["abstentions"].values()
    for name in names:
        epochs = [epoch for sample in samples for epoch in sample["epochs"]]
        count = sum(name in epoch and epoch[name] is None for epoch in epochs)
        results["abstentions"].pop(name, None)
        if count or with_zeros:
            results["abstentions"][name] = count


def _mean(values: Sequence[float | None], *, leave_out: bool) -> float | None:
    """Return the mean. None stands for an abstention where it is left out, else for NaN or inf."""
    voted = [value for value in values if value is not None]
    unknown = not voted or (len(voted) < len(values) and not leave_out)
    return None if unknown else statistics.mean(voted)


def _without_nonfinite(value: Any) -> Any:
    """Return JSON data with null for NaN and infinity, as the harness writes them."""
    if isinstance(value, dict):
        return {key: _without_nonfinite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_nonfinite(item) for item in value]
    return finite(value) if isinstance(value, float) else value
