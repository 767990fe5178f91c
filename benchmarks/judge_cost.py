"""Measure what asking a judge costs, against the `vlm` grader of inspect-robots on the same trials.

    python benchmarks/judge_cost.py [--trials 24] [--rounds 3] [--json]

Both grade the sample trials over HTTP against the same local stub model, which counts the bytes of
their requests; the harness' grader gets the frames as arrays, as in a rollout. Kinds of frames:

    rendered   640x480, the sample frames as they are: smooth, so PNG does well
    camera     640x480 with the sensor noise of a real camera (sigma 4 levels, seeded)
    camera_2x  1280x960, doubled, with the same noise; sent with a long edge of 768 px

Reported per trial (4 frames) as the mean over trials: bytes of the request's body, prompt tokens by
the vendors' formulas for the pixels sent plus a quarter of the characters of all texts, schema
included, and CPU milliseconds of the calling thread (least of several rounds):

    inspect, decode, normalise, encode, blank   the steps of preparing a frame
    prepare    all that is done before the prompt, as one
    judge      a whole judge, of which the rest is prompt, base64, SDK and reply
    harness    a whole grade() of the harness

Verdicts are those of the judge that looks at pixels (examples/pixel_judge), asked once with the
prepared frames through our judge and once with lossless frames at full size.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from inspect_robots.grader import vlm_grader
from inspect_robots.rollout import StepRecord, TrialRecord
from inspect_robots.scene import Scene
from inspect_robots.types import Action, Observation, StepResult
from PIL import Image

from grader_service.judging.evidence import Evidence, Shown, show
from grader_service.judging.frame_prepare import (
    LONG_EDGE,
    MAX_BYTES,
    decode,
    encode,
    is_blank,
    normalise,
    prepare_frame,
)
from grader_service.judging.frames import inspect_frame
from grader_service.judging.image_tokens import image_tokens
from grader_service.judging.judge import Judge, JudgeConfig
from grader_service.judging.prompt import REPLY_SCHEMA, LabelledFrame, Marks, frames_prompt
from grader_service.judging.receipt import Case
from grader_service.judging.reply import parse_reply
from grader_service.judging.rubric import Rubric, library_rubric
from grader_service.providers import build_provider
from grader_service.providers.base import Ask, ProviderConfig
from grader_service.providers.base import Image as EncodedImage
from grader_service.providers.stub import StubModel
from grader_service.records.canonical import digest
from tests.support.judges import pixel_judge

TRIALS: Final = Path(__file__).parents[1] / "examples" / "trials"
MODELS: Final = ("gpt-6-luna", "claude-haiku-5-5", "gpt-4o")
CAMERAS: Final = ("front", "overhead")
PHASES: Final = {"first": "initial", "last": "final"}
NOISE_LEVELS: Final = 4.0
_CHARS_PER_TOKEN: Final = 4

Pixels = npt.NDArray[np.uint8]
Frames = Mapping[tuple[str, str], Pixels]


@dataclass(frozen=True)
class Trial:
    """A sample trial: its rubric, and its frames by phase and camera, received as `files`."""

    id: str
    instruction: str
    rubric: Rubric
    frames: Frames
    files: Mapping[tuple[str, str], bytes]

    @property
    def case(self) -> Case:
        return Case(self.id, "0" * 64, 0, self.rubric)

    @property
    def evidence(self) -> list[Evidence]:
        return [
            Evidence(camera, phase, digest(data), data)
            for (phase, camera), data in self.files.items()
        ]


def as_rendered(file: Path) -> tuple[Pixels, bytes]:
    data = file.read_bytes()
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")), data


def from_camera(file: Path, scale: int) -> tuple[Pixels, bytes]:
    """Return a frame with sensor noise, received as the array that a camera driver gives."""
    image = Image.open(file).convert("RGB")
    large = image.resize((image.width * scale, image.height * scale), Image.Resampling.LANCZOS)
    noise = np.random.default_rng(digest(file.name.encode()).encode()[0]).normal(
        0, NOISE_LEVELS, (large.height, large.width, 3)
    )
    pixels = np.clip(np.asarray(large) + noise, 0, 255).astype(np.uint8)
    buffer = io.BytesIO()
    np.save(buffer, pixels)
    return pixels, buffer.getvalue()


KINDS: Final[Mapping[str, Callable[[Path], tuple[Pixels, bytes]]]] = {
    "rendered": as_rendered,
    "camera": lambda file: from_camera(file, 1),
    "camera_2x": lambda file: from_camera(file, 2),
}


def sample_trials(kind: str, count: int) -> Iterator[Trial]:
    """Yield trials one at a time: the large frames of all of them would take 400 MB."""
    entries = json.loads((TRIALS / "trials.json").read_bytes())["trials"]
    for entry in entries[:count]:
        read = {
            (phase, camera): KINDS[kind](TRIALS / entry["frames"][f"{name}_{camera}"])
            for phase, name in PHASES.items()
            for camera in CAMERAS
        }
        yield Trial(
            entry["id"],
            entry["instruction"],
            library_rubric(entry["rubric"]),
            {key: pixels for key, (pixels, _) in read.items()},
            {key: data for key, (_, data) in read.items()},
        )


def cpu_ms(work: Callable[[], object], rounds: int) -> float:
    """Return the least CPU time of this thread over several rounds, in milliseconds."""
    spent = []
    for _ in range(rounds):
        start = time.thread_time_ns()
        work()
        spent.append(time.thread_time_ns() - start)
    return min(spent) / 1e6


def harness_grade(trial: Trial, url: str) -> Callable[[], None]:
    """Return a call of the harness' grader on a trial as its rollout records it."""
    os.environ["BENCHMARK_KEY"] = "k"
    criteria = "\n".join(f"- {criterion.text}" for criterion in trial.rubric.criteria)
    grader = vlm_grader(
        "m",
        rubric=f"{trial.rubric.expectation}\n{criteria}",
        base_url=url,
        api_key_env="BENCHMARK_KEY",
    )
    seen = {
        phase: Observation(images={camera: trial.frames[phase, camera] for camera in CAMERAS})
        for phase in PHASES
    }
    step = StepRecord(
        t=0,
        observation=seen["first"],
        action=Action(np.zeros(7)),
        result=StepResult(observation=seen["last"]),
    )
    scene = Scene(id=trial.id, instruction=trial.instruction)

    def grade() -> None:
        record = TrialRecord(scene_id=trial.id, epoch=0, seed=0, steps=[step])
        grader.grade(record, scene)
        if record.operator_judgement is None:
            raise SystemExit(f"the harness' grader did not grade {trial.id}")

    return grade


def judge_at(url: str) -> Judge:
    provider = ProviderConfig(kind="openai", model="m", base_url=url, api_key="k")
    return Judge(JudgeConfig("j", provider), build_provider(provider), b"benchmark")


def text_tokens(request: Mapping[str, Any], *, schema: bool) -> int:
    chars = len(request["system"]) + sum(map(len, request["texts"]))
    chars += len(json.dumps(REPLY_SCHEMA)) if schema else 0
    return round(chars / _CHARS_PER_TOKEN)


def all_image_tokens(model: str, sizes: Sequence[tuple[int, int]]) -> int:
    return sum(image_tokens(model, *size) or 0 for size in sizes)


def step_ms(data: bytes, rounds: int) -> dict[str, float]:
    """Return the CPU milliseconds of each step of preparing one frame."""
    media_type = inspect_frame(data).media_type
    # Decoded anew for each round, since it is scaled in place.
    decoded = [decode(data, media_type, LONG_EDGE) for _ in range(rounds)]
    picture, _ = normalise(decode(data, media_type, LONG_EDGE), LONG_EDGE)
    frame = prepare_frame(data)
    return {
        "ms_inspect": cpu_ms(lambda: inspect_frame(data), rounds),
        "ms_decode": cpu_ms(lambda: decode(data, media_type, LONG_EDGE), rounds),
        "ms_normalise": cpu_ms(lambda: normalise(decoded.pop(), LONG_EDGE), rounds),
        "ms_encode": cpu_ms(lambda: encode(picture, MAX_BYTES), rounds),
        "ms_blank": cpu_ms(lambda: is_blank(frame), rounds),
    }


def all_steps_ms(trial: Trial, rounds: int) -> dict[str, float]:
    """Return the same for all frames of a trial. First frames are not looked at for blankness."""
    spent: dict[str, float] = {}
    for (phase, _), data in trial.files.items():
        for step, ms in step_ms(data, rounds).items():
            if step != "ms_blank" or phase != "first":
                spent[step] = spent.get(step, 0.0) + ms
    return spent


def measure(trial: Trial, stub: StubModel, judge: Judge, rounds: int) -> dict[str, float]:
    """Return what one trial costs either way."""
    stub.reset()
    stub.script([{"match": {}, "replies": [{"verdict": "success"}]}])
    harness_ms = cpu_ms(harness_grade(trial, stub.url), rounds)
    theirs = stub.log[-1]
    shown = show(trial.evidence, trial.rubric.frames)
    if not isinstance(shown, Shown):
        raise SystemExit(f"the frames of {trial.id} are refused: {shown.note}")
    judge_ms = cpu_ms(
        lambda: judge.judge_frames(
            trial.case, instruction=trial.instruction, frames=trial.evidence
        ),
        rounds,
    )
    ours = stub.log[-1]
    found: dict[str, float] = {
        "our_bytes": int(ours["headers"]["content-length"]),
        "harness_bytes": int(theirs["headers"]["content-length"]),
        "our_text_tokens": text_tokens(ours, schema=True),
        "harness_text_tokens": text_tokens(theirs, schema=False),
        **all_steps_ms(trial, rounds),
        "ms_prepare": cpu_ms(lambda: show(trial.evidence, trial.rubric.frames), rounds),
        "ms_judge": judge_ms,
        "ms_harness": harness_ms,
    }
    sent = [(frame["width"], frame["height"]) for frame in shown.receipt]
    full = [(pixels.shape[1], pixels.shape[0]) for pixels in trial.frames.values()]
    for model in MODELS:
        ours_total = found["our_text_tokens"] + all_image_tokens(model, sent)
        theirs_total = found["harness_text_tokens"] + all_image_tokens(model, full)
        found |= {f"our_tokens_{model}": ours_total, f"harness_tokens_{model}": theirs_total}
    return found


def lossless_verdict(trial: Trial, judge: Judge) -> str | None:
    """Return what the pixel judge says of the frames as PNG at full size."""
    frames = []
    for (phase, camera), pixels in trial.frames.items():
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, "PNG", compress_level=1)
        frames.append(LabelledFrame(camera, phase, EncodedImage("image/png", buffer.getvalue())))
    marks = Marks.of(judge.secret, trial.id, 0)
    prompt = frames_prompt(
        instruction=trial.instruction, rubric=trial.rubric, frames=frames, marks=marks
    )
    ask = Ask(prompt.system, prompt.ask("json_schema"), "json_schema", REPLY_SCHEMA)
    answer = judge.provider.ask(ask)
    return parse_reply(answer.wire, answer.body, rubric=trial.rubric, token=marks.token).verdict


def verdicts(kind: str, count: int, judge: Judge) -> dict[str, Any]:
    """Compare the pixel judge's verdicts on prepared and on lossless frames, and with the truth."""
    truths = {
        entry["id"]: "success" if entry["success"] else "failure"
        for entry in json.loads((TRIALS / "trials.json").read_bytes())["trials"]
    }
    prepared, lossless = {}, {}
    for trial in sample_trials(kind, count):
        judged = judge.judge_frames(
            trial.case, instruction=trial.instruction, frames=trial.evidence
        )
        prepared[trial.id] = judged.decision.verdict
        lossless[trial.id] = lossless_verdict(trial, judge)

    def right(said: Mapping[str, str | None]) -> int:
        return sum(said[id_] == truths[id_] for id_ in said)

    return {
        "verdicts_changed": [id_ for id_ in prepared if prepared[id_] != lossless[id_]],
        "right_prepared": right(prepared),
        "right_lossless": right(lossless),
        "abstained_prepared": list(prepared.values()).count("abstain"),
    }


def report(kind: str, rows: Sequence[Mapping[str, float]], said: Mapping[str, Any]) -> Any:
    mean = {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}
    ratios = sorted(row["harness_bytes"] / row["our_bytes"] for row in rows)
    return {
        "frames": kind,
        "trials": len(rows),
        "bytes_ratio": round(mean["harness_bytes"] / mean["our_bytes"], 1),
        "bytes_ratio_least": round(ratios[0], 1),
        "bytes_ratio_most": round(ratios[-1], 1),
        "trials_at_most_a_tenth": sum(ratio >= 10 for ratio in ratios),
        **{
            f"tokens_ratio_{model}": round(
                mean[f"harness_tokens_{model}"] / mean[f"our_tokens_{model}"], 2
            )
            for model in MODELS
        },
        **{name: round(value, 1) for name, value in mean.items()},
        **said,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()

    rows = []
    with StubModel() as stub, pixel_judge() as pixels:
        scripted, looking = judge_at(stub.url), judge_at(pixels)
        with closing(scripted.provider), closing(looking.provider):
            scripted.provider.warm()
            for kind in KINDS:
                costs = [
                    measure(trial, stub, scripted, arguments.rounds)
                    for trial in sample_trials(kind, arguments.trials)
                ]
                rows.append(report(kind, costs, verdicts(kind, arguments.trials, looking)))
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    for name in rows[0]:
        print(f"{name:>34}", *(f"{row[name]!s:>12}" for row in rows))


if __name__ == "__main__":
    main()
