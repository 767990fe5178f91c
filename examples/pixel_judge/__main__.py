"""The server: `python -m examples.pixel_judge --port 0`."""

from __future__ import annotations

import argparse
import json
import signal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NoReturn

import cv2

from examples.pixel_judge.judge import judge
from examples.pixel_judge.prompt import read_request
from examples.pixel_judge.reply import completion
from grader_service.errors import AutograderError, NotFoundError, TooLargeError, UsageError

_MAX_BODY: Final = 32 * 2**20
_MODELS: Final = {
    "object": "list",
    "data": [{"id": "pixel-judge", "object": "model", "created": 0, "owned_by": "examples"}],
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        match self.path:
            case "/healthz":
                self._send(200, {"status": "ok"})
            case "/v1/models":
                self._send(200, _MODELS)
            case _:
                self._refuse(NotFoundError(f"there is no {self.path}"))

    def do_POST(self) -> None:
        try:
            body = self._body()
            if self.path != "/v1/chat/completions":
                raise NotFoundError(f"there is no {self.path}")
            request = read_request(body)
            self._send(200, completion(request, judge(request)))
        except AutograderError as error:
            self._refuse(error)

    def _body(self) -> Any:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            raise UsageError("the request has no Content-Length", fix="send it with one")
        if int(length) > _MAX_BODY:
            raise TooLargeError(f"the body is over {_MAX_BODY} bytes", fix="send smaller frames")
        try:
            return json.loads(self.rfile.read(int(length)))
        except ValueError:
            raise UsageError("the body is not JSON", fix="send a JSON object") from None

    def _refuse(self, error: AutograderError) -> None:
        # The body may be unread, and the next request would then begin in the middle of it.
        self.close_connection = True
        problem = {"message": str(error), "type": "invalid_request_error", "param": None}
        self._send(error.status, {"error": {**problem, "code": error.slug}})

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            # Said, or the client sends its next request into the connection that closes.
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
        """Say nothing: the one line at the start is what a parent process reads."""


def _stop(_signal: int, _frame: object) -> NoReturn:
    raise SystemExit(0)


def main() -> None:
    """Serve until SIGTERM or an interrupt."""
    parser = argparse.ArgumentParser(prog="pixel_judge", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8899, help="0 takes a free one")
    options = parser.parse_args()
    # Requests already run in parallel; threads within one would only contend.
    cv2.setNumThreads(1)
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    with ThreadingHTTPServer((options.host, options.port), _Handler) as server:
        print(f"pixel-judge listening on http://{options.host}:{server.server_port}/v1", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
