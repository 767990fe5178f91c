"""Submit a folder of trials, wait for the verdicts, and print them.

    python examples/client_submit_folder.py examples/trials --run first

The same folder submitted again is the same trials: what is interrupted can simply be started anew.
"""

from __future__ import annotations

import argparse
import sys

from grader_service.client import DEFAULT_URL, Client
from grader_service.client.disk import find_inputs
from grader_service.client.submissions import Choices, drafts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--run", default="first")
    parser.add_argument("--url", default=DEFAULT_URL)
    arguments = parser.parse_args()

    # While the service is started anew, what was under way is sent again.
    with Client(arguments.url, retry_s=60) as client:
        ids = []
        for found in find_inputs([arguments.folder]):
            for draft in drafts(found, Choices(run=arguments.run)):
                submission = draft.build()
                ids.append(client.submit(submission.trial, submission.parts)["id"])
        print(f"submitted {len(ids)} trials")

        ungraded = 0
        for trial_id in ids:
            trial = client.wait(trial_id, timeout_s=600)
            # Three different things: a verdict, a judge that abstained, and no verdict at all.
            ungraded += trial["outcome"] == "ungraded"
            print(trial["scene_id"], trial["outcome"], trial["verdict"] or trial["reason"])

        graded = client.run(arguments.run)["graded"]
        print(f"graded {graded['n']}: {graded['success']} success, {graded['failure']} failure")
    return 1 if ungraded else 0


if __name__ == "__main__":
    sys.exit(main())
