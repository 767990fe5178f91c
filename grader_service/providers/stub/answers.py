"""What the stub says: an answer that follows from the content it is sent, and from nothing else.

The same texts and pixels give the same answer on every wire, in every process, whatever the trial
token, fence nonce, image encoding and model. Frames in another order are other content.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from PIL import Image as PillowImage

from grader_service.providers.stub.wires import Said, SentImage, WireError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grader_service.providers.stub.wires import Request
    from grader_service.records.verdict import Met, VerdictWord

_TOKEN: Final = re.compile(r"^Trial token: (\S+)", re.MULTILINE)
_NONCE: Final = re.compile(r'<data-(\w+) name="')
_CRITERIA: Final = re.compile(r'<data-(\w+) name="criteria">\n(.*?)</data-\1>', re.DOTALL)
_CRITERION: Final = re.compile(r"^- (\S+) \((required|optional)\): ", re.MULTILINE)
_FRAME: Final = re.compile(r"^Frame \d+ of \d+: (.+)$", re.MULTILINE)
_FENCE: Final = re.compile(r"</?data-[^>]*>")

# Of 256 values of the key's first byte: success below the first bound, then failure, then unclear.
_SUCCESS_BELOW: Final = 154
_FAILURE_BELOW: Final = 231

_pixel_digests: dict[str, bytes] = {}
_MAX_REMEMBERED: Final = 10_000


@dataclass(frozen=True, slots=True)
class Criterion:
    id: str
    required: bool


@dataclass(frozen=True, slots=True)
class Opinion:
    """A verdict with what it rests on, before it is put into words."""

    verdict: VerdictWord
    met: Mapping[str, Met]
    rationale: str
    confidence: float


def content_key(request: Request) -> str:
    """Return the sha256 of the user turn: texts without token and nonce, pixels as RGB, in order.

    Raises WireError for an image that can't be decoded.
    """
    blanks = [*_TOKEN.findall(request.text), *_NONCE.findall(request.text)]
    blank = re.compile("|".join(map(re.escape, blanks)) or "(?!)")
    key = hashlib.sha256()
    for part in request.parts:
        if isinstance(part, str):
            data = blank.sub("", part).encode("utf-8", "surrogatepass")
            key.update(b"text %d " % len(data) + data)
        else:
            key.update(b"image " + _pixel_digest(part))
    return key.hexdigest()


def _pixel_digest(image: SentImage) -> bytes:
    known = _pixel_digests.get(image.sha256)
    if known is not None:
        return known
    try:
        with PillowImage.open(io.BytesIO(image.data)) as picture:
            pixels = picture.convert("RGB")
    except (OSError, ValueError, SyntaxError, PillowImage.DecompressionBombError) as error:
        raise WireError(f"an image can't be decoded: {error}") from None
    made = hashlib.sha256(b"%d x %d " % pixels.size + pixels.tobytes()).digest()
    if len(_pixel_digests) >= _MAX_REMEMBERED:
        _pixel_digests.clear()
    _pixel_digests[image.sha256] = made
    return made


def criteria_of(request: Request) -> list[Criterion]:
    """Return the criteria that the prompt lists."""
    block = _CRITERIA.search(request.text)
    found = _CRITERION.findall(block[2]) if block else []
    return [Criterion(id_, required == "required") for id_, required in found]


def opinion_of(key: str, criteria: list[Criterion]) -> Opinion:
    """Return the opinion that a content key stands for.

    Its first byte chooses success (60 %), failure (30 %) or abstain (10 %). On failure one required
    criterion, chosen by the second byte, is not met, on abstain it is unclear; the other required
    ones are met. An optional one is met unless its own byte is in the lowest quarter. So the
    verdict is what `all_required` decides.
    """
    bits = bytes.fromhex(key)
    verdict: VerdictWord = "abstain"
    if bits[0] < _SUCCESS_BELOW:
        verdict = "success"
    elif bits[0] < _FAILURE_BELOW:
        verdict = "failure"
    met = met_for(verdict, criteria, chosen=bits[1])
    for number, criterion in enumerate(criteria):
        if not criterion.required and bits[3 + number % 28] < 64:  # noqa: PLR2004
            met[criterion.id] = "no"
    rationale = f"Stub answer from content key {key[:12]}; nobody looked at the frames."
    return Opinion(verdict, met, rationale, round(0.5 + bits[2] / 510, 3))


def met_for(verdict: VerdictWord, criteria: list[Criterion], *, chosen: int = 0) -> dict[str, Met]:
    """Return findings from which `all_required` decides `verdict`."""
    met: dict[str, Met] = {criterion.id: "yes" for criterion in criteria}
    required = [criterion.id for criterion in criteria if criterion.required]
    if required and verdict != "success":
        met[required[chosen % len(required)]] = "no" if verdict == "failure" else "unclear"
    return met


def reply_object(opinion: Opinion, request: Request) -> dict[str, Any]:
    """Return the reply object, its keys in the order that the prompt asks for."""
    token = _TOKEN.search(request.text)
    frames = _FRAME.findall(request.text)
    evidence = "Stub, no observation" + (f" ({_FENCE.sub('', frames[-1])})." if frames else ".")
    mode = request.schema.get("properties", {}).get("failure_mode", {})
    return {
        "token": token[1] if token else "",
        "criteria": [
            {"id": id_, "evidence": evidence, "met": met} for id_, met in opinion.met.items()
        ],
        "rationale": opinion.rationale,
        "verdict": opinion.verdict,
        "confidence": opinion.confidence,
        "injection_suspected": False,
        "failure_mode": "" if mode.get("type") == "string" else None,
    }


def say(opinion: Opinion, request: Request) -> Said:
    """Return the answer in the form that the request asks for."""
    if request.form == "text":
        return Said(in_prose(opinion))
    return Said(json.dumps(reply_object(opinion, request)))


def in_prose(opinion: Opinion) -> str:
    """Return the answer as text that ends in one GRADE line."""
    findings = "".join(f"{id_}: {met}.\n" for id_, met in opinion.met.items())
    return f"{opinion.rationale}\n{findings}GRADE: {opinion.verdict}"
