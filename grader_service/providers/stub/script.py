"""Scripts: what the stub shall answer to which requests, in which order.

    [{"match": {"text": "red cube", "model": "m", "key": "3f…"},
      "replies": [{"fault": "429;ra=2"}, {"verdict": "failure", "met": {"in_goal": "no"}}],
      "latency": 0.5, "per_key": true}]

The first rule of which every condition holds counts; an empty `match` holds always. Its replies
come one after the other and the last one repeats, counted over all requests or, with `per_key`,
for each content key. A reply is a verdict (findings not given are what `all_required` needs for
it), a raw text, or a fault.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from grader_service.providers.stub.faults import Fault
from grader_service.records.verdict import Met, VerdictWord

if TYPE_CHECKING:
    from collections.abc import Callable

    from grader_service.providers.stub.wires import Request


class ScriptError(ValueError):
    """A script that is none."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Match(_Strict):
    text: str | None = None
    key: str | None = None
    model: str | None = None


class ScriptedReply(_Strict):
    """Exactly one of verdict, text and fault."""

    verdict: VerdictWord | None = None
    met: dict[str, Met] = Field(default_factory=dict)
    rationale: str = "Stub answer by script."
    text: str | None = None
    fault: str | None = None

    @model_validator(mode="after")
    def _one(self) -> ScriptedReply:
        if sum(given is not None for given in (self.verdict, self.text, self.fault)) != 1:
            raise ValueError("a reply has exactly one of verdict, text and fault")
        if self.fault is not None:
            Fault.parse(self.fault)
        return self


class Rule(_Strict):
    match: Match = Match()
    replies: Annotated[tuple[ScriptedReply, ...], Field(min_length=1)]
    latency: float | None = Field(default=None, ge=0)
    per_key: bool = False

    @property
    def needs_key(self) -> bool:
        return self.per_key or self.match.key is not None


_RULES: TypeAdapter[list[Rule]] = TypeAdapter(list[Rule])


def read_rules(value: Any) -> list[Rule]:
    """Return the rules of a script in its JSON form. Raises ScriptError."""
    try:
        return _RULES.validate_python(value)
    except ValidationError as error:
        raise ScriptError(f"the script is none: {error}") from None


@dataclass(slots=True)
class Script:
    """Rules, and how often each has answered."""

    rules: list[Rule] = field(default_factory=list)
    _answered: Counter[tuple[int, str]] = field(default_factory=Counter)

    def pick(self, request: Request, key: Callable[[], str]) -> tuple[Rule, ScriptedReply] | None:
        """Return the rule that matches and its next reply. `key` is called only if it matters."""
        for number, rule in enumerate(self.rules):
            if rule.match.model not in (None, request.model):
                continue
            if rule.match.text is not None and rule.match.text not in request.text:
                continue
            content = key() if rule.needs_key else ""
            if rule.match.key not in (None, content):
                continue
            counted = (number, content if rule.per_key else "")
            turn = min(self._answered[counted], len(rule.replies) - 1)
            self._answered[counted] += 1
            return rule, rule.replies[turn]
        return None
