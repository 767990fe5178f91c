"""One target in this process: `python -m fuzz.run TARGET SECONDS [FILE]`.

With a file, only that input is tried, with the traceback of what it breaks.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["grader_service", "python_multipart", "PIL"]):
    from fuzz.targets import TARGETS

from fuzz.__main__ import KEPT, MEMORY_MB, TIMEOUT_S
from fuzz.trees import mutate


def main() -> None:
    """Fuzz, or try one input."""
    logging.disable()
    name, seconds, *files = sys.argv[1:]
    target = TARGETS[name]
    if files:
        target.check(Path(files[0]).read_bytes())
        return
    home = KEPT / name
    folders = {part: home / part for part in ("seeds", "corpus", "finds")}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        (folders["seeds"] / str(number)).write_bytes(seed)
    for find in folders["finds"].iterdir():
        target.check(find.read_bytes())
        find.unlink()  # it breaks nothing any more
    atheris.Setup(
        [
            "fuzz",
            f"-max_total_time={seconds}",
            f"-max_len={target.max_len}",
            f"-timeout={TIMEOUT_S}",
            f"-rss_limit_mb={MEMORY_MB}",
            f"-artifact_prefix={folders['finds']}/",
            "-print_final_stats=1",
            str(folders["corpus"]),
            str(folders["seeds"]),
        ],
        target.check,
        **({"custom_mutator": mutate} if target.json else {}),
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
