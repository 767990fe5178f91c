"""What a service can be asked for by name: its judges, and rubrics."""

from __future__ import annotations

import re
from typing import Any, Final

from grader_service.errors import NotFoundError, RubricError
from grader_service.grading.service import Service
from grader_service.judging.rubric import library, library_rubric
from grader_service.storage import trials

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


def judges(service: Service) -> list[dict[str, Any]]:
    """Return the configured judges by name, without what could lead to a key."""
    known = service.judges
    return [
        {
            "name": name,
            "provider": config.provider.kind,
            "model": config.provider.model,
            "stub": config.stub,
            "default": name == known.default,
            "digest": config.digest,
        }
        for name, config in sorted(known.by_name.items())
    ]


def rubrics() -> list[dict[str, Any]]:
    """Return the rubrics of the library, in the order of their ids."""
    return [
        {"id": rubric.id, "kind": rubric.kind, "title": rubric.title, "digest": rubric.digest}
        for _, rubric in sorted(library().items())
    ]


def rubric(service: Service, reference: str) -> dict[str, Any]:
    """Return the library's rubric of an id, or the one of a digest that trials were judged by.

    Raises NotFoundError, naming the ids that are nearest.
    """
    if not _DIGEST.fullmatch(reference):
        try:
            found = library_rubric(reference)
        except RubricError as error:
            raise NotFoundError(error.message, fix=error.fix) from error
        return {"digest": found.digest, "rubric": found.to_dict()}
    of_library = {known.digest: known.to_dict() for known in library().values()}
    body = of_library.get(reference)
    if body is None:
        with service.database.read() as unit:
            body = trials.get_rubric(unit, reference)
    if body is None:
        raise NotFoundError(
            f"no trial is judged by a rubric of the digest {reference}",
            fix="the receipt of a verdict has the digest of its rubric",
        )
    return {"digest": reference, "rubric": body}
