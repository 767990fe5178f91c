#!/usr/bin/env python
"""The image's health check: `healthcheck api` or `healthcheck worker`; exits 0 or 1."""

from __future__ import annotations

import os
import socket
import sys
import urllib.request


def api_is_well() -> bool:
    """Ask this container's API whether it is alive."""
    port = os.environ.get("AUTOGRADER_PORT", "8400")
    url = f"http://127.0.0.1:{port}/healthz"
    try:
        with urllib.request.urlopen(url, timeout=4) as answer:
            return bool(answer.status == 200)  # noqa: PLR2004
    except OSError:
        return False


def worker_is_well() -> bool:
    """Look in the database for this container's worker: does it tick, and take what is due?

    While the database is away or takes no writes nobody can tell, and a new worker would be no
    better off.
    """
    from grader_service.errors import UnavailableError
    from grader_service.settings import Settings
    from grader_service.storage import probe, workers
    from grader_service.storage.database import Database

    settings = Settings.load()
    # As the worker names itself where AUTOGRADER_NODE is not set.
    own = settings.node or f"{socket.gethostname()}:"
    database = Database(settings.database, pool_size=1, wait_s=3)
    try:
        # A tick is a write: where nobody can write, a worker can't show any.
        with database.write() as unit:
            probe.write(unit)
            seen = workers.seen(unit, within_s=2 * workers.ALIVE_S)
    except UnavailableError:
        return True
    finally:
        database.close()
    return any(
        worker.node.startswith(own) and worker.idle <= settings.stuck_after_s for worker in seen
    )


if __name__ == "__main__":
    well = {"api": api_is_well, "worker": worker_is_well}[sys.argv[1]]()
    sys.exit(0 if well else 1)
