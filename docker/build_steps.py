"""Run the Dockerfile's own steps without Docker, then grade trials with what they built.

    python docker/build_steps.py [FOLDER]

This Python takes the place of the base image, and what comes from another image (uv) has to be on
the PATH. The stages share one tree under FOLDER, so what one copies from the other lies there
already. An instruction or option that is not known here is an error: nothing is left out silently.
"""

# ruff: noqa: INP001  (docker/ is no package)
from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

CONTEXT = Path(__file__).resolve().parent.parent
DOCKERFILE = CONTEXT / "docker" / "Dockerfile"
# Changes nothing on a disk.
_ONLY_FOR_DOCKER = {"USER", "EXPOSE"}
_VARIABLE = re.compile(r"\$(?:{(?P<braced>\w+)}|(?P<bare>\w+))")


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Give each instruction of a Dockerfile with its arguments on one line."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            name, _, arguments = line.strip().partition(" ")
            yield name.upper(), arguments.strip()


@dataclass
class Image:
    """What the steps have made so far: a tree, and the settings of the stage they are in."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    folder: Path = Path()
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    healthcheck: list[str] = field(default_factory=list)

    @property
    def prefix(self) -> Path:
        """Where the program goes: the tree has no other place for it that a script could run in."""
        return self.root / "opt" / "autograder"

    def step(self, name: str, text: str) -> None:
        """Do one instruction."""
        match name:
            case "FROM":
                self.environment = _base_environment()
                self.folder = self.root
            case "ARG":
                key, _, default = text.partition("=")
                self.arguments[key] = str(self.prefix) if key == "PREFIX" else default
            case "ENV":
                values = [word.partition("=") for word in shlex.split(text)]
                self.environment |= {key: self._expanded(value) for key, _, value in values}
            case "WORKDIR":
                self.folder = self._place(self._expanded(text))
                self.folder.mkdir(parents=True, exist_ok=True)
            case "COPY":
                self._copy(shlex.split(self._expanded(text)))
            case "RUN":
                self._run(text)
            case "ENTRYPOINT":
                self.entrypoint = json.loads(text)
            case "CMD":
                self.command = json.loads(text)
            case "HEALTHCHECK":
                self.healthcheck = json.loads(text.partition("CMD")[2])
            case _ if name in _ONLY_FOR_DOCKER:
                pass
            case _:
                raise SystemExit(f"{name} is not known to {Path(__file__).name}")

    def _expanded(self, text: str) -> str:
        values = self.arguments | self.environment
        return _VARIABLE.sub(lambda match: values[match["braced"] or match["bare"]], text)

    def _place(self, path: str) -> Path:
        """Return where a path of the image lies in the tree."""
        if path.startswith(str(self.root)):
            return Path(path)
        return self.root / path.lstrip("/") if path.startswith("/") else self.folder / path

    def _run(self, text: str) -> None:
        # The Dockerfile's own line, as Docker would run it.
        subprocess.run(  # noqa: S603
            ["/bin/sh", "-c", text],
            cwd=self.folder,
            env=self.arguments | self.environment,
            check=True,
        )

    def _copy(self, words: Sequence[str]) -> None:
        options = dict(word[2:].split("=", 1) for word in words if word.startswith("--"))
        *sources, target = [word for word in words if not word.startswith("--")]
        unknown = options.keys() - {"from", "chmod"}
        if unknown:
            raise SystemExit(f"COPY --{unknown.pop()} is not known to {Path(__file__).name}")
        origin = options.get("from")
        if origin is not None and re.search("[/:]", origin):
            _require_on_path([Path(source).name for source in sources], origin)
            return
        place = self._place(target)
        for source in sources:
            path = CONTEXT / source if origin is None else self._place(source)
            inside = place / path.name if target.endswith("/") else place
            if path == inside:
                continue
            inside.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(path, inside, dirs_exist_ok=True, ignore=ignored)
            else:
                shutil.copyfile(path, inside)
                inside.chmod(int(options.get("chmod", "644"), 8))


def _base_environment() -> dict[str, str]:
    """Return what a base image would set, and no setting of this machine's service."""
    own = ("AUTOGRADER_", "PYTHON", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    # What signs for this machine's proxy, if it has one, is known to the machine and not to uv.
    uv = {"UV_PYTHON": sys.executable, "UV_SYSTEM_CERTS": "1"}
    return kept | uv | {"PATH": f"{Path(sys.executable).parent}:{kept['PATH']}"}


def _require_on_path(programs: Sequence[str], image: str) -> None:
    path = _base_environment()["PATH"]
    for program in programs:
        if shutil.which(program, path=path) is None:
            raise SystemExit(f"{program} of {image} is not on the PATH: pip install {program}")


def build(root: Path) -> Image:
    """Run all steps and return the last stage."""
    image = Image(root)
    for name, text in instructions(DOCKERFILE.read_text()):
        print("=>", name, " ".join(text.split()), flush=True)
        image.step(name, text)
    return image


# --- the image at work ----------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Container:
    """Processes that run as the image would run them."""

    image: Image
    settings: dict[str, str]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603  (our own command lines)
            [self._program(words[0]), *words[1:]],
            env=self.image.environment | self.settings,
            cwd=self.image.folder,
            stdout=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )

    def autograder(self, *words: str) -> str:
        """Run one command of the image to its end and return what it prints."""
        done = self.run(*self.image.entrypoint, *words)
        if done.returncode:
            raise SystemExit(f"autograder {' '.join(words)} ended with {done.returncode}")
        return done.stdout

    @contextmanager
    def running(self, *words: str) -> Iterator[None]:
        """Run a process until the block ends, which it must survive and then end in order."""
        process = subprocess.Popen(  # noqa: S603  (our own command lines)
            [self._program(words[0]), *words[1:]],
            env=self.image.environment | self.settings,
            cwd=self.image.folder,
            stdout=subprocess.DEVNULL,
        )
        try:
            yield
            process.terminate()
            code = process.wait(60)
            # Uvicorn passes the signal on to itself once it has shut down.
            if code not in (0, -signal.SIGTERM):
                raise SystemExit(f"{' '.join(words)} ended with {code}")
        finally:
            process.kill()
            process.wait()

    def wait_for(self, *words: str) -> None:
        """Wait until a command succeeds."""
        give_up = time.monotonic() + 60
        while self.run(*words).returncode:
            if time.monotonic() > give_up:
                raise SystemExit(f"{' '.join(words)} did not succeed")
            time.sleep(0.2)

    def _program(self, name: str) -> str:
        found = shutil.which(name, path=self.image.environment["PATH"])
        if found is None:
            raise SystemExit(f"the image has no {name}")
        return found


def grade_trials(image: Image, trials: Path) -> str:
    """Start the image's processes around the embedded broker, grade `trials`, return a summary."""
    before = _files(image.prefix)
    api, broker, model = free_port(), free_port(), free_port()
    judge = {"provider": "openai", "model": "m", "base_url": f"http://127.0.0.1:{model}/v1"}
    home = image.root / "home"
    home.mkdir()
    container = Container(
        image,
        {
            "AUTOGRADER_HOME": str(home),
            "AUTOGRADER_PORT": str(api),
            "AUTOGRADER_BROKER_URL": f"redis://127.0.0.1:{broker}/0",
            "AUTOGRADER_JUDGES": json.dumps({"stub": judge | {"stub": True}}),
        },
    )
    ask = "import json, pathlib, sys; from grader_service.cli.broker import broker_arguments as b; "
    ask += "print(json.dumps(b(int(sys.argv[1]), pathlib.Path(sys.argv[2]))))"
    broker_words = json.loads(container.run("python", "-c", ask, str(broker), str(home)).stdout)
    container.autograder("migrate")
    with (
        container.running(*broker_words),
        container.running(*image.entrypoint, "stub-model", "--port", str(model)),
        container.running(*image.entrypoint, *image.command),
        container.running(*image.entrypoint, "worker"),
    ):
        container.wait_for(*image.healthcheck)
        container.wait_for("healthcheck", "worker")
        url = f"http://127.0.0.1:{api}"
        told = container.autograder(
            "submit", str(trials), "--run", "image", "--wait", "--json", "--url", url
        )
    summary = json.loads(told)["summary"]
    ended = summary["graded"]["n"] + summary["abstained"]["n"]
    if ended != summary["trials"]:
        raise SystemExit(f"not all trials were graded: {summary}")
    if _files(image.prefix) != before:
        raise SystemExit("the image writes to its own files: it can't run on a read-only disk")
    size = sum(path.stat().st_size for path in image.prefix.rglob("*") if path.is_file())
    return f"{size / 1e6:.0f} MB installed; {ended} of {summary['trials']} trials graded"


def _files(folder: Path) -> dict[Path, int]:
    return {path: path.lstat().st_mtime_ns for path in folder.rglob("*")}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(sys.argv[1] if len(sys.argv) > 1 else temporary).resolve()
        print(grade_trials(build(root), CONTEXT / "examples" / "trials"))
