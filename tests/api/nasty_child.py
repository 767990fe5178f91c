"""Submits and grades every file named on the command line, within a limited address space.

    nasty_child.py HOME JUDGE_URL FILE...

Prints one JSON object per line: for each file what the API answered and what became of the trial,
then `peaks`: resident MB of this process before the first submission, after the last one, and
after all were graded.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

from PIL import Image

from grader_service.api.body import Limits
from tests.support.in_process import in_process
from tests.support.judges import judge_at

ADDRESS_SPACE = 3 << 29  # 1.5 GiB


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def trial(name: str, part: str) -> dict[str, object]:
    return {
        "kind": "robot",
        "run": "nasty",
        "scene": {"id": name, "instruction": "Place the red cube."},
        "frames": [{"camera": "front", "phase": "last", "part": part}],
    }


def main() -> None:
    home, judge_url, *paths = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    Image.init()  # loading the decoders is not what a submission costs
    with in_process(Path(home), judge_at(judge_url), Limits()) as service:
        service.submit(trial("warm", "f"), {"f": b"not a picture"})
        peaks = [peak_mb()]
        answers = {}
        for path in map(Path, paths):
            answers[path.name] = service.submit(trial(path.name, "f"), {"f": path.read_bytes()})
        peaks.append(peak_mb())
        service.grade()
        peaks.append(peak_mb())
        for name, answer in answers.items():
            body = answer.json()
            found = {"name": name, "status": answer.status_code, "answer": body}
            if answer.status_code == 202:
                found |= {
                    "trial": service.trial(body["id"]),
                    "receipt": service.receipt(body["id"]),
                }
            print(json.dumps(found))
    print(json.dumps({"peaks": peaks}))


if __name__ == "__main__":
    main()
