"""The three accounts of a run never mix, and a rate is shown only where it means something."""

from __future__ import annotations

import pytest

from grader_service.scoring.accounts import Accounts


def test_an_outage_is_not_a_failure_of_the_robot() -> None:
    before = Accounts(success=8, failure=2)
    outage = Accounts(success=8, failure=2, ungraded={"provider_unavailable": 2})
    assert before.rate(gradable_share=0.8) == outage.rate(gradable_share=0.8) == 0.8
    assert outage.to_dict(gradable_share=0.8)["ungraded"] == {
        "n": 2,
        "by_reason": {"provider_unavailable": 2},
    }


def test_too_few_graded_trials_give_bounds_and_no_rate() -> None:
    summary = Accounts(success=4, failure=3, abstained={"criteria_unclear": 3}).to_dict(
        gradable_share=0.8
    )
    assert summary["success_rate"] is None
    assert summary["interval"] is None
    assert summary["bounds"] == {"all_missing_failed": 0.4, "all_missing_succeeded": 0.7}
    assert summary["no_rate_because"] == (
        "only 7 of 10 gradable trials are graded (a rate needs 80%)"
    )


def test_exactly_the_needed_share_gives_a_rate() -> None:
    assert Accounts(success=8, ungraded={"timeout": 2}).rate(gradable_share=0.8) == 1.0


def test_pending_trials_count_as_missing() -> None:
    accounts = Accounts(success=1, queued=8, running=1)
    assert accounts.rate(gradable_share=0.8) is None
    assert accounts.bounds() == (0.1, 1.0)


def test_a_rate_stands_beside_its_interval_and_all_counts() -> None:
    summary = Accounts(success=7, failure=3).to_dict(gradable_share=0.8)
    assert summary["success_rate"] == 0.7
    assert summary["interval"]["method"] == "wilson"
    assert summary["interval"]["low"] == pytest.approx(0.3967781475)
    assert summary["interval"]["high"] == pytest.approx(0.8922087326)
    assert summary["graded"] == {"n": 10, "success": 7, "failure": 3}


def test_verdicts_of_a_stub_give_no_rate() -> None:
    summary = Accounts(success=10, stub=1).to_dict(gradable_share=0.8)
    assert summary["success_rate"] is None
    assert summary["no_rate_because"].startswith("STUB")


def test_a_run_without_trials_has_neither_rate_nor_bounds() -> None:
    summary = Accounts().to_dict(gradable_share=0.8)
    assert summary["success_rate"] is None
    assert summary["bounds"] is None
