"""One effective command as the card shows it, with its class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from grader_service.scoring.a320.formula import stored

if TYPE_CHECKING:
    from grader_service.scoring.a320.ground_truth import Severity

CommandClass = Literal["matched_required", "optional", "forbidden", "extraneous"]
Subtype = Literal["repeat_of_required", "uncatalogued_in_gt"]


@dataclass(frozen=True, slots=True)
class Command:
    """A command and its one class. `subtype` is of extraneous, `severity` of forbidden commands.

    `index` numbers effective commands from 0; `required_index` is the slot of the flattened
    procedure that the command was matched to.
    """

    index: int
    step: int | None
    control: str
    value: float
    kind: CommandClass
    subtype: Subtype | None = None
    severity: Severity | None = None
    required_index: int | None = None

    @property
    def label(self) -> str:
        """The class with its subtype or severity, as in `forbidden:dangerous`."""
        detail = self.subtype or self.severity
        return f"{self.kind}:{detail}" if detail else self.kind

    def to_dict(self) -> dict[str, Any]:
        return {
            "index": self.index,
            "step": self.step,
            "control": self.control,
            "value": stored(self.value),
            "class": self.kind,
            "subtype": self.subtype,
            "severity": self.severity,
            "required_index": self.required_index,
        }
