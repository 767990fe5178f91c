"""YAML as plain JSON values, each with the line that it stands on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import yaml
from yaml.constructor import SafeConstructor
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

KeyPath = tuple[str | int, ...]

_TAG: Final = "tag:yaml.org,2002:"
_TYPED: Final = frozenset({_TAG + name for name in ("bool", "int", "float", "null")})
# Plain scalars that YAML 1.1 would turn into dates and the like; a rubric means the text.
_TEXTS: Final = frozenset({_TAG + name for name in ("str", "timestamp", "merge", "value")})


class LocatedError(ValueError):
    """The text is no YAML of the kind that is read here. `line` counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


class Located(NamedTuple):
    """A value, and the line of each key and item by its path."""

    value: Any
    lines: Mapping[KeyPath, int]

    def line(self, path: KeyPath) -> int:
        """Return the line of `path`, or of the nearest thing around it that is there."""
        while path not in self.lines:
            path = path[:-1]
        return self.lines[path]


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        # An alias lets a few bytes stand for gigabytes, or for themselves.
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]  # the stubs leave it bare
            line = event.start_mark.line + 1
            raise LocatedError("anchors and aliases are not read; write the value out", line)
        return super().compose_node(parent, index)


def read_yaml(text: str) -> Located:
    """Return the one document of `text`: mappings with string keys, lists, scalars, nothing else.

    Raises LocatedError, also for a key that stands twice in a mapping.
    """
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise LocatedError(error.problem or "not YAML", mark.line + 1 if mark else 1) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, int(error.position)) + 1
        raise LocatedError(f"not YAML: {error.reason}", line) from None
    except RecursionError:
        raise LocatedError("nested too deeply", 1) from None
    lines: dict[KeyPath, int] = {(): 1}
    value = None if root is None else _value(root, (), lines)
    return Located(value, lines)


def _value(node: Node, path: KeyPath, lines: dict[KeyPath, int]) -> Any:
    line = node.start_mark.line + 1
    lines.setdefault(path, line)
    if isinstance(node, MappingNode) and node.tag == _TAG + "map":
        return _mapping(node, path, lines)
    if isinstance(node, SequenceNode) and node.tag == _TAG + "seq":
        return [_value(item, (*path, i), lines) for i, item in enumerate(node.value)]
    if isinstance(node, ScalarNode) and node.tag in _TEXTS:
        return node.value
    if isinstance(node, ScalarNode) and node.tag in _TYPED:
        try:
            return SafeConstructor().construct_object(node)
        except (ValueError, LookupError):
            raise LocatedError(f"{node.value!r} is no {node.tag[len(_TAG) :]}", line) from None
    raise LocatedError(f"the tag {node.tag} is not read", line)


def _mapping(node: MappingNode, path: KeyPath, lines: dict[KeyPath, int]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, ScalarNode):
            raise LocatedError("a key is a plain word", line)
        key = key_node.value
        if key in result:
            raise LocatedError(f"the key {key!r} stands twice", line)
        lines[(*path, key)] = line
        result[key] = _value(value_node, (*path, key), lines)
    return result
