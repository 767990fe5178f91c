"""Submitting what lies on disk, as `autograder submit` does it."""

from __future__ import annotations

from pathlib import Path

from grader_service.client.disk import find_inputs
from grader_service.client.http import Client
from grader_service.client.submissions import Choices, drafts


def submit_all(client: Client, path: Path, *, run: str, judge: str | None = None) -> list[str]:
    """Submit every trial that a path names; return their ids."""
    choices = Choices(run=run, judge=judge)
    ids = []
    for found in find_inputs([str(path)]):
        for draft in drafts(found, choices):
            submission = draft.build()
            ids.append(client.submit(submission.trial, submission.parts)["id"])
    return ids
