"""`autograder stub-model`: a model server without a model, for demos and tests."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from grader_service.errors import UsageError
from grader_service.providers.stub import StubModel


def stub_model_command(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 0,
    script: Annotated[
        Path | None, typer.Option(help="JSON file of rules: what to answer to which request.")
    ] = None,
    latency: Annotated[float, typer.Option(min=0, help="Least seconds to an answer.")] = 0.0,
    faults: Annotated[
        str, typer.Option(help='Random faults, as in "429;ra=1:0.05,500:0.05,rst:0.02,max=2".')
    ] = "",
    seed: Annotated[int, typer.Option(help="Chooses which calls the random faults hit.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the addresses as JSON.")] = False,
) -> None:
    """Serve a stub of the OpenAI and Anthropic APIs whose answers follow from the content.

    Prints its URL as the first line and serves until it is interrupted or terminated. The same
    frames and texts always get the same answer; nobody looks at them.
    """
    stub = StubModel(
        host=host,
        port=port,
        script=_rules(script),
        latency=latency,
        faults=faults,
        seed=seed,
    )

    def started(stub: StubModel) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stub.stop)
        urls = {"url": stub.url, "root_url": stub.root_url}
        print(json.dumps(urls) if as_json else stub.url, flush=True)

    try:
        asyncio.run(stub.serve(started))
    except OSError as error:
        raise UsageError(
            f"can't listen on {host}:{port}: {error.strerror or error}",
            fix="choose another --port, or 0 for a free one",
        ) from None


def _rules(path: Path | None) -> list[Any]:
    if path is None:
        return []
    try:
        rules = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path} can't be read as JSON: {error}", fix="give --script a JSON list of rules"
        ) from None
    if not isinstance(rules, list):
        raise UsageError(f"{path} holds no list", fix="give --script a JSON list of rules")
    return rules
