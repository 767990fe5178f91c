"""What a run's receipts say of tokens, cost and failure modes adds up, unknowns counted apart."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from grader_service.records.verdict import Decision
from grader_service.storage import trials, verdicts
from grader_service.storage.database import Database
from grader_service.storage.tables import MAX_FAILURE_MODE
from grader_service.storage.verdicts import Spent

RUBRIC = "r" * 64
FAILURE = Decision.graded("failure")


def add_trial(database: Database, *, run: str = "r1", tenant: str = "t") -> str:
    with database.write() as unit:
        trials.put_rubric(unit, digest=RUBRIC, rubric_id="x", body={})
        return trials.add(
            unit,
            trials.NewTrial(tenant, run, None, "c", "robot", "s", 0, None, RUBRIC, "d", [], []),
        )


def receipt(
    *, tokens: tuple[Any, Any] | None = (100, 10), usd: str | None = "0.25", **more: Any
) -> dict[str, Any]:
    usage = None
    if tokens is not None:
        usage = dict(zip(("input_tokens", "output_tokens"), tokens, strict=True))
    cost = None if usd is None else {"usd": usd, "source": "settings", "model": "m"}
    return {"reply": {"wire": "text", "body": ""}, "usage": usage, "cost": cost, **more}


def say(
    database: Database,
    trial_id: str,
    receipt: dict[str, Any] | None,
    *,
    decision: Decision = FAILURE,
    source: str = "vlm",
    primary: bool = True,
) -> None:
    with database.write() as unit:
        verdicts.append(
            unit,
            trial_id=trial_id,
            source=source,
            decision=decision,
            receipt=receipt,
            primary=primary,
        )


def spent(database: Database, run: str = "r1") -> Spent:
    with database.read() as unit:
        return verdicts.spent_on_run(unit, tenant="t", run=run)


def modes(database: Database) -> dict[str | None, int]:
    with database.read() as unit:
        rows = trials.count_effective(unit, tenant="t", run="r1")
    return {row.failure_mode: row.n for row in rows}


def test_every_receipt_of_a_run_is_added_up_whether_or_not_its_verdict_counts(
    database: Database,
) -> None:
    trial_id = add_trial(database)
    say(database, trial_id, receipt(usd="0.1"))
    say(database, trial_id, receipt(usd="0.2", votes=[{}]))
    say(database, trial_id, receipt(usd="0.0000001"), primary=False)
    say(database, add_trial(database, run="r2"), receipt())
    say(database, add_trial(database, tenant="other"), receipt())
    assert spent(database) == Spent(4, 300, 30, 0, Decimal("0.3000001"), 0)
    assert spent(database, "r2") == Spent(1, 100, 10, 0, Decimal("0.25"), 0)


def test_an_unknown_cost_is_counted_and_not_taken_for_zero(database: Database) -> None:
    trial_id = add_trial(database)
    say(database, trial_id, receipt(usd=None))
    assert spent(database) == Spent(1, 100, 10, 0, None, 1)
    say(database, trial_id, receipt(usd="0"))
    assert spent(database) == Spent(2, 200, 20, 0, Decimal(0), 1)


@pytest.mark.parametrize("tokens", [None, (100, None), (10**30, 1)])
def test_tokens_that_are_not_told_or_can_not_be_are_counted_apart(
    database: Database, tokens: tuple[Any, Any] | None
) -> None:
    say(database, add_trial(database), receipt(tokens=tokens, usd=None))
    found = spent(database)
    assert (found.answers, found.untold, found.unpriced) == (1, 1, 1)


def test_an_answer_that_could_not_be_read_is_of_unknown_cost(database: Database) -> None:
    unread = {
        "reply": None,
        "error": "no response object",
        "outcome": {"reason": "reply_invalid"},
        "usage": None,
        "cost": None,
    }
    say(database, add_trial(database), unread, decision=Decision.ungraded("reply_invalid"))
    assert spent(database) == Spent(1, 0, 0, 1, None, 1)


@pytest.mark.parametrize(
    "without_call",
    [
        None,
        receipt(reused_from="d" * 64),
        {"schema": "receipt/1", "error": "RuntimeError()"},
        {"reply": None, "error": "no last frame", "outcome": {"reason": "evidence_missing"}},
    ],
)
def test_what_took_no_answer_cost_nothing_for_certain(
    database: Database, without_call: dict[str, Any] | None
) -> None:
    say(database, add_trial(database), without_call)
    assert spent(database) == Spent(0, 0, 0, 0, Decimal(0), 0)


def test_sums_are_exact_and_hold_what_a_very_large_run_takes(database: Database) -> None:
    trial_id = add_trial(database)
    for _ in range(3):
        say(database, trial_id, receipt(tokens=(10**9, 10**9), usd="1000000.000000001"))
    assert spent(database) == Spent(3, 3 * 10**9, 3 * 10**9, 0, Decimal("3000000.000000003"), 0)


def test_a_failures_mode_is_counted_while_its_verdict_counts(database: Database) -> None:
    dropped = add_trial(database)
    say(database, dropped, receipt(failure_mode="dropped"))
    say(database, add_trial(database), receipt(failure_mode=None))
    success = Decision.graded("success")
    say(database, add_trial(database), receipt(failure_mode="other"), decision=success)
    assert modes(database)["dropped"] == 1
    say(database, dropped, None, decision=success, source="human")
    assert modes(database).keys() == {None}


@pytest.mark.parametrize("mode", ["x" * 5000, "é\ud800\x00"])
def test_a_failure_mode_of_any_text_can_be_stored(database: Database, mode: str) -> None:
    say(database, add_trial(database), receipt(failure_mode=mode))
    [stored] = modes(database)
    assert stored is not None
    assert 0 < len(stored) <= MAX_FAILURE_MODE
