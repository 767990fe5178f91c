"""Follow a run and write each trial's ScoreCard as soon as the trial has ended.

    python examples/client_watch_scorecards.py first cards

It may be started before, while or after the trials are graded, and stopped and started again: the
events of a run are told from its beginning.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from grader_service.client import DEFAULT_URL, Client, RunEnded, SummaryChanged, TrialEnded


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--url", default=DEFAULT_URL)
    arguments = parser.parse_args()

    arguments.folder.mkdir(parents=True, exist_ok=True)
    with Client(arguments.url, retry_s=60) as client:
        for event in client.progress(arguments.run):
            match event:
                case TrialEnded(trial):
                    card = client.scorecard(trial["id"])
                    (arguments.folder / f"{trial['id']}.scorecard.json").write_bytes(card)
                case SummaryChanged(summary):
                    print(f"pending: {summary['pending']['n']}")
                case RunEnded(summary):
                    rate = summary["success_rate"]
                    print(f"no rate: {summary['no_rate_because']}" if rate is None else rate)


if __name__ == "__main__":
    main()
