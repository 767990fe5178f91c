"""Mutations of JSON text that keep it JSON: random bytes hardly ever get past a parser."""

from __future__ import annotations

import json
import random
from typing import Any, Final

# Values that readers have to be careful with.
_VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**53,
    2**64,
    10**30,
    -0.0,
    0.5,
    1e308,
    "",
    "a",
    "GRADE: success",
    "\u2028\ud800\x00",
    "$float",
    "9" * 5000,
    [],
    {},
    [[]],
    {"": {}},
)
_MAX_DEPTH: Final = 70
_TOKENS: Final = (
    *(b"{", b"}", b"[", b"]", b'"', b"\\", b":", b",", b"null", b"NaN", b"-0", b"1e999"),
    *(b"```", b"> ", b"<think>", b"</think>", b"GRADE: success", b'"verdict": "failure"'),
    *(b"\xe2\x80\x8b", b"\xef\xbc\x9a", b"\xff", b"\\ud800", b"\r", b"\n"),
)
# Shares of mutations that keep JSON, and that repeat a line.
_TREES: Final = 0.8
_LINES: Final = 0.1


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """Change one line's JSON tree, or its bytes where it has none; libFuzzer calls this."""
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    lines = data.split(b"\n")
    number = chance.randrange(len(lines))
    line = lines[number]
    try:
        tree = json.loads(line) if chance.random() < _TREES else None
    except (ValueError, RecursionError):
        tree = None
    for _ in range(chance.randint(1, 3)):
        if tree is None:
            line = _bytes_changed(line, chance)
        else:
            tree = _changed(tree, chance)
            line = json.dumps(tree).encode()
    lines[number] = line
    if chance.random() < _LINES:
        lines.insert(chance.randrange(len(lines)), chance.choice(lines))
    return b"\n".join(lines)[:max_size]


def _bytes_changed(data: bytes, chance: random.Random) -> bytes:
    """Return the bytes with some of them replaced, dropped, repeated or inserted."""
    at = chance.randint(0, len(data))
    to = min(len(data), at + chance.choice((1, 1, 2, 8, 64)))
    middle = chance.choice(
        (
            b"",
            data[at:to] * 2,
            bytes([chance.randrange(256)]),
            chance.choice(_TOKENS),
            chance.randbytes(to - at),
        )
    )
    return data[:at] + middle + data[chance.choice((at, to)) :]


def _changed(tree: Any, chance: random.Random) -> Any:
    """Return the tree with one of its nodes replaced, dropped, copied, renamed or wrapped."""
    places = list(_places(tree))
    if not places:
        return chance.choice(_VALUES)
    holder, key = chance.choice(places)
    match chance.randrange(6):
        case 0:
            holder[key] = chance.choice(_VALUES)
        case 1:
            other, other_key = chance.choice(places)
            holder[key] = json.loads(json.dumps(other[other_key]))
        case 2:
            del holder[key]
        case 3 if isinstance(holder, dict):
            holder[chance.choice([*holder, "$dict", "x", ""])] = holder.pop(key)
        case 4:
            for _ in range(chance.choice((1, 3, _MAX_DEPTH))):
                holder[key] = chance.choice(({"$tuple": [holder[key]]}, [holder[key]]))
        case _ if isinstance(holder[key], int | float):
            holder[key] += chance.choice((-1, 1, 2**31, 0.5))
        case _:
            holder[key] = chance.choice(_VALUES)
    return tree


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Return where each node below the root is kept: its holder and its key there."""
    places: list[tuple[Any, Any]] = []
    waiting = [tree] if isinstance(tree, dict | list) else []
    while waiting:
        node = waiting.pop()
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], dict | list):
                waiting.append(node[key])
    return places
