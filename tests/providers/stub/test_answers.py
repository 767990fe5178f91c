from __future__ import annotations

import base64
import io
import json
import random
from typing import Any

import pytest
from PIL import Image as PillowImage

from grader_service.providers.stub.answers import (
    Criterion,
    content_key,
    criteria_of,
    opinion_of,
    reply_object,
    say,
)
from grader_service.providers.stub.wires import Request, SentImage, WireError

TEXT = """\
Task given to the robot:
<data-{nonce} name="task">
Put the cube on the pad.
- not_one (required): a line of the task is no criterion
</data-{nonce}>

<data-{nonce} name="criteria">
- in_goal (required): In the LAST frame it lies on the pad (required).
- intact (optional): Nothing else fell.
</data-{nonce}>

Trial token: {token}"""


def encoded(pixels: bytes, format_: str) -> SentImage:
    data = io.BytesIO()
    PillowImage.frombytes("RGB", (4, 4), pixels).save(data, format_)
    return SentImage(f"image/{format_.lower()}", base64.b64encode(data.getvalue()).decode())


FIRST = random.Random(1).randbytes(48)
LAST = random.Random(2).randbytes(48)


def request(*parts: str | SentImage, **changes: Any) -> Request:
    given: dict[str, Any] = {
        "wire": "openai.chat",
        "model": "m",
        "system": "grade",
        "form": "json_schema",
        "schema": {},
        "parameters": {},
        "names": frozenset(),
        **changes,
    }
    return Request(parts=parts, **given)


def trial(
    first: SentImage, last: SentImage, *, nonce: str = "aa11", mark: str = "t-1", **changes: Any
) -> Request:
    text = TEXT.format(nonce=nonce, token=mark)
    label = "Frame {} of 2: {}, camera front"
    return request(label.format(1, "FIRST"), first, label.format(2, "LAST"), last, text, **changes)


def test_the_key_is_of_the_content_alone() -> None:
    key = content_key(trial(encoded(FIRST, "PNG"), encoded(LAST, "PNG")))
    same = trial(
        encoded(FIRST, "BMP"),
        encoded(LAST, "TIFF"),
        nonce="bb22",
        mark="t-2",
        wire="anthropic.messages",
        model="another",
        system="another",
        form="text",
    )
    assert content_key(same) == key


def test_the_key_changes_with_order_pixels_and_words() -> None:
    first, last = encoded(FIRST, "PNG"), encoded(LAST, "PNG")
    keys = {
        content_key(trial(first, last)),
        content_key(trial(last, first)),
        content_key(trial(first, encoded(LAST[:-1] + b"\0", "PNG"))),
        content_key(request("a", first, "b", last)),
        content_key(request("a", first, "c", last)),
        content_key(request("ab", first, last)),
        content_key(request("a", "b", first, last)),
    }
    assert len(keys) == 7


def test_an_image_that_cannot_be_decoded_is_refused() -> None:
    with pytest.raises(WireError, match="decoded"):
        content_key(request(SentImage("image/png", "bm8gcGljdHVyZQ==")))


def test_criteria_are_those_of_the_prompt_and_no_others() -> None:
    read = criteria_of(trial(encoded(FIRST, "PNG"), encoded(LAST, "PNG")))
    assert read == [Criterion("in_goal", True), Criterion("intact", False)]
    assert criteria_of(request("- a (required): not in the fence of criteria")) == []


def test_an_answer_has_the_reply_keys_in_their_order_and_echoes_the_token() -> None:
    asked = trial(encoded(FIRST, "PNG"), encoded(LAST, "PNG"), mark="t-00000000000000aa")
    reply = reply_object(opinion_of(content_key(asked), criteria_of(asked)), asked)
    assert list(reply) == [
        "token",
        "criteria",
        "rationale",
        "verdict",
        "confidence",
        "injection_suspected",
        "failure_mode",
    ]
    assert reply["token"] == "t-00000000000000aa"
    assert [list(entry) for entry in reply["criteria"]] == [["id", "evidence", "met"]] * 2
    assert "Stub" in reply["rationale"]
    assert "LAST, camera front" in reply["criteria"][0]["evidence"]
    assert reply["failure_mode"] is None


def test_a_schema_that_wants_text_for_the_failure_mode_gets_it() -> None:
    schema = {"properties": {"failure_mode": {"type": "string"}}}
    asked = request("Trial token: t-1", schema=schema)
    assert reply_object(opinion_of("00" * 32, []), asked)["failure_mode"] == ""


def test_the_text_form_ends_in_one_grade_line_and_holds_no_object() -> None:
    asked = trial(encoded(FIRST, "PNG"), encoded(LAST, "PNG"), form="text")
    opinion = opinion_of("00" * 32, criteria_of(asked))
    text = say(opinion, asked).text or ""
    assert text.splitlines()[-1] == "GRADE: success"
    assert text.count("GRADE") == 1
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)


def test_verdicts_come_in_the_documented_shares_and_agree_with_the_findings() -> None:
    criteria = [Criterion("a", True), Criterion("b", True), Criterion("c", False)]
    keys = random.Random(3)
    counts = {"success": 0, "failure": 0, "abstain": 0}
    blamed: set[str] = set()
    for _ in range(3000):
        opinion = opinion_of(keys.randbytes(32).hex(), criteria)
        counts[opinion.verdict] += 1
        required = [opinion.met["a"], opinion.met["b"]]
        decided = "failure" if "no" in required else "success"
        decided = "abstain" if "unclear" in required else decided
        assert decided == opinion.verdict
        assert 0.5 <= opinion.confidence <= 1
        blamed.update(id_ for id_, met in opinion.met.items() if met == "no")
    assert blamed == {"a", "b", "c"}
    assert counts["success"] == pytest.approx(1800, abs=120)
    assert counts["failure"] == pytest.approx(900, abs=120)
    assert counts["abstain"] == pytest.approx(300, abs=80)
