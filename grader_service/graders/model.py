"""Graders that ask a model from this process: `vlm` about robot trials, `llm_judge` about A320."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from grader_service.errors import TryLaterError
from grader_service.graders import live
from grader_service.graders.trial import Kind, Trial, new_verdict
from grader_service.judging.judge import Judge, Judged
from grader_service.judging.receipt import Case
from grader_service.records.verdict import Verdict, effective_verdict
from grader_service.scoring.a320 import judge_bundle

# As the service has it: faults of the provider that end the asking, and the waits between tries,
# which are full jitter up to min(cap, base · 2^faults) seconds. Waits that are nobody's fault do
# not count.
_MAX_FAULTS: Final = 6
_BASE_S: Final = 1.0
_CAP_S: Final = 60.0


@dataclass
class ModelGrader:
    """Asks a judge. Thread-safe. Verdicts come with receipts, as those of the service do.

    `patience_s` bounds how long one trial is asked about. `keep` is a folder that trials graded by
    `grade` are saved to, each with its verdict and receipt. `stop`, once set, lets no call wait
    for another try.
    """

    name: str
    judge: Judge
    rubric: Any = None
    patience_s: float = 600.0
    keep: Path | None = None
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset({self._kind})

    @property
    def _kind(self) -> Kind:
        return "robot" if self.name == "vlm" else "a320"

    def config(self) -> dict[str, Any]:
        """Return what the harness notes in its log of how this run is graded."""
        config = self.judge.config
        return {
            "judge": config.name,
            "judge_digest": config.digest,
            "provider": config.provider.kind,
            "model": config.provider.model,
            "rubric": self.rubric,
            "stub": config.stub,
        }

    def grade(self, record: Any, scene: Any) -> None:
        """Write the verdict onto a live record of the harness, or why there is none."""
        live.grade(self, record, scene, keep=self.keep)

    def close(self) -> None:
        """End the calls that wait for another try, and the connections to the model."""
        self.stop.set()
        self.judge.provider.close()

    def has_graded(self, verdicts: Sequence[Verdict]) -> bool:
        """Say whether somebody has spoken; a scripted model counts for scripted models only."""
        counts = effective_verdict(verdicts)
        if counts is None or counts.outcome == "ungraded":
            return False
        return counts.source != "stub" or self.judge.config.stub

    def verdict(self, trial: Trial) -> Verdict:
        """Ask about a trial. Raises TryLaterError when told to stop while it waits."""
        case = trial.case(trial.rubric(self.rubric))
        if self._kind == "a320":
            bundle = judge_bundle(trial.record)
            judged = self._patiently(case, lambda: self.judge.judge_bundle(case, bundle=bundle))
        else:
            frames = trial.evidence()
            instruction, found_in = trial.instruction()
            judged = self._patiently(
                case,
                lambda: self.judge.judge_frames(
                    case, instruction=instruction, instruction_from=found_in, frames=frames
                ),
            )
        return new_verdict(
            self.judge.source(self._kind),
            judged.decision,
            note=judged.decision.rationale or judged.receipt.get("error"),
            by=self.judge.config.name,
            receipt=judged.receipt,
        )

    def _patiently(self, case: Case, ask: Callable[[], Judged]) -> Judged:
        give_up = time.monotonic() + self.patience_s
        faults = 0
        for tries in itertools.count():
            try:
                return ask()
            except TryLaterError as error:
                faults += error.counts
                wait = error.retry_after
                if wait is None:
                    # Spread, not secrecy.
                    wait = random.uniform(0, min(_CAP_S, _BASE_S * 2 ** min(tries, 10)))  # noqa: S311
                if faults >= _MAX_FAULTS or time.monotonic() + wait > give_up:
                    return self.judge.failed(case, error)
                if self.stop.wait(wait):
                    raise
        raise AssertionError("tries never end")
