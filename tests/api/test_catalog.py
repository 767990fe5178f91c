"""Judges and rubrics over HTTP: what a submission may name."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from grader_service.judging.judge import JudgeConfig
from grader_service.judging.rubric import library, rubric_from_json
from tests.api.conftest import post, robot


def test_judges_are_listed_with_their_identity_and_without_a_way_to_their_key(
    api: TestClient, judge: JudgeConfig
) -> None:
    answer = api.get("/v1/judges")
    assert answer.json() == {
        "judges": [
            {
                "name": "main",
                "provider": "openai",
                "model": "m",
                "stub": False,
                "default": True,
                "digest": judge.digest,
            }
        ]
    }
    assert "127.0.0.1" not in answer.text


def test_every_rubric_of_the_library_is_listed_and_can_be_read_whole(api: TestClient) -> None:
    listed = api.get("/v1/rubrics").json()["rubrics"]
    assert [one["id"] for one in listed] == sorted(library())
    for one in listed:
        read = api.get(f"/v1/rubrics/{one['id']}").json()
        assert read["digest"] == one["digest"]
        assert rubric_from_json(read["rubric"]).digest == one["digest"]
        assert api.get(f"/v1/rubrics/{one['digest']}").json() == read


def test_a_rubric_of_ones_own_can_be_read_by_the_digest_that_its_receipts_name(
    api: TestClient, frame: bytes
) -> None:
    text = "Is the cube on the square?"
    digest = rubric_from_json(text).digest
    assert api.get(f"/v1/rubrics/{digest}").status_code == 404
    assert post(api, robot(rubric=text), {"f0": frame}).status_code == 202
    assert rubric_from_json(api.get(f"/v1/rubrics/{digest}").json()["rubric"]).digest == digest


@pytest.mark.parametrize("reference", ["robot/place-in-gaol", "0" * 64, "x", "a/b/c", "%00", "é"])
def test_a_rubric_that_nobody_knows_is_not_found_and_the_way_out_is_told(
    api: TestClient, reference: str
) -> None:
    answer = api.get(f"/v1/rubrics/{reference}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["fix"]
