"""The judges that a process knows, and which one a trial gets."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from grader_service.errors import InputError
from grader_service.judging.judge import JudgeConfig


@dataclass(frozen=True, slots=True)
class Judges:
    """The configured judges by name, and the one that grades what names none."""

    by_name: Mapping[str, JudgeConfig]
    default: str | None

    def resolve(self, name: str | None) -> JudgeConfig | None:
        """Return the judge of a submission; None when none is configured, so that it waits.

        Raises InputError when judges are configured and this is none of them.
        """
        if not self.by_name:
            return None
        wanted = self.default if name is None else name
        if wanted is not None and wanted in self.by_name:
            return self.by_name[wanted]
        near = difflib.get_close_matches(str(wanted), self.by_name, n=1)
        raise InputError(
            f"there is no judge {wanted!r}",
            fix=f"use {near[0] if near else ' or '.join(sorted(self.by_name))!r}, or leave it out",
        )

    def claimable(self) -> list[str]:
        """Return the judge names whose rows a worker of this process may take."""
        return [*self.by_name, *([""] if self.default is not None else [])]
