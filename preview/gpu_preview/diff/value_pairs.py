"""Pairs the values of a property in base and head, down to their leaves, also inside JSON texts.

The danger rules use the pairs. differences.py compares values for the report itself.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import json_text
from .values import SECRET, is_plain

# The deepest provider schema has less than half of this depth. A hostile value can have any depth.
DEEPEST = 64
# A longer text is a file, not a policy or a configuration.
_LONGEST_JSON = 200_000


@dataclass(frozen=True)
class ValuePair:
    """One value in base and head. None if a revision has the parent and not the value."""

    path: tuple[Step, ...]
    """The names and indexes; a `#` precedes the path inside a JSON text."""
    before: Any
    after: Any

    @property
    def key(self) -> str:
        """The last name in the path."""
        return next((step for step in reversed(self.path) if isinstance(step, str)), "")

    @property
    def keys(self) -> tuple[str, ...]:
        """The names in the path, without the positions in lists."""
        return tuple(step for step in self.path if isinstance(step, str) and step != IN_TEXT)

    @property
    def text(self) -> str:
        """The path in the engine's form, with the parts of a JSON text after a `#`."""
        return written(self.path)


def pairs(before: Any, after: Any) -> Iterator[ValuePair]:
    """Yield every value and its parts, in base and head. Missing, secret and unknown values have no parts."""
    remaining: list[tuple[tuple[Step, ...], Any, Any]] = [((), before, after)]
    while remaining:
        path, old_value, new_value = remaining.pop()
        if path:
            yield ValuePair(path, old_value, new_value)
        if len(path) >= DEEPEST:
            continue
        old, new = decoded(old_value), decoded(new_value)
        path = (*path, IN_TEXT) if new is not new_value else path
        if isinstance(new, Mapping):
            old_map = old if isinstance(old, Mapping) else {}
            keys = [key for key in {**new, **old_map} if isinstance(key, str)]
            remaining += [((*path, key), old_map.get(key), new.get(key)) for key in reversed(keys)]
        elif isinstance(new, list):
            entries = list(_matched(old if isinstance(old, list) else [], new))
            remaining += [((*path, index), *pair) for index, *pair in reversed(entries)]


def revealed(before: Any, after: Any) -> Iterator[ValuePair]:
    """Yield values that were secret and are plain now, at the same place or with the same name."""
    if before == after:  # Most values of a stack are equal, and comparing all takes a second for 100 pools.
        return
    yield from (pair for pair in pairs(before, after) if pair.before == SECRET and plain(pair.after))


def plain(value: Any) -> bool:
    """Return True if a value, or any leaf of a map or list, exists, is known, and is not secret."""
    return any(is_plain(leaf) for _, leaf in leaves(value))


def leaves(value: Any) -> tuple[tuple[tuple[Step, ...], Any], ...]:
    """Return every leaf of a value with its path, as hashable values."""
    if not isinstance(value, Mapping | list):
        return (((), value),)
    found = ((pair.path, pair.after) for pair in pairs(None, value))
    return tuple((path, part) for path, part in found if not isinstance(part, Mapping | list))


def decoded(value: Any) -> Any:
    """Return the map or list in a JSON text, and every other value unchanged."""
    if not isinstance(value, str) or len(value) > _LONGEST_JSON or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        found = json_text.read(value)
    except ValueError:
        return value
    return found if isinstance(found, Mapping | list) else value


def _matched(before: Sequence[Any], after: Sequence[Any]) -> Iterator[tuple[int, Any, Any]]:
    """Pair the entries of two lists: by name if all have one, else equal plain values first, and the rest in order.

    A changed order is no difference here, because a rule follows one entry. In differences.py it is a difference.
    """
    name = name_of(before, after)
    indexes_before: dict[Any, deque[int]] = {}
    for index, value in enumerate(before):
        indexes_before.setdefault(_identity(value, name), deque()).append(index)
    index_pairs = {
        index: indexes_before[identity].popleft()
        for index, value in enumerate(after)
        if indexes_before.get(identity := _identity(value, name))
    }
    paired = set(index_pairs.values())
    rest = deque(() if name else (index for index in range(len(before)) if index not in paired))
    for index, value in enumerate(after):
        old_index = index_pairs.get(index, rest.popleft() if index not in index_pairs and rest else None)
        yield index, None if old_index is None else before[old_index], value


def _identity(value: Any, name: str) -> Any:
    """Return the identity of a list entry. Maps and lists without a name are identified by their position."""
    if name:
        return value[name]
    return (type(value), value) if isinstance(value, str | int | float) else object()


Step = str | int
IN_TEXT = "#"
"""The step into a JSON text."""
_PLAIN = re.compile(r"[A-Za-z0-9_]+")
_PART = re.compile(r'\["((?:[^"\\]|\\.)*)"\]|\[(\d{1,9})\]|\.?([^.\[\]]+)', re.DOTALL)


def joined(path: str, step: object) -> str:
    """Return the path of a child: below a name, or at an index."""
    if isinstance(step, int) and not isinstance(step, bool):
        return f"{path}[{step}]"
    name = str(step)
    if not _PLAIN.fullmatch(name):
        quoted = name.replace("\\", "\\\\").replace('"', '\\"')
        return f'{path}["{quoted}"]'
    return f"{path}.{name}" if path and not path.endswith(IN_TEXT) else f"{path}{name}"


def written(steps: tuple[Step, ...]) -> str:
    """Return the path of these steps."""
    path = ""
    for step in steps:
        path = f"{path}{IN_TEXT}" if step == IN_TEXT else joined(path, step)
    return path


def steps_of(path: str) -> list[Step]:
    """Return the names and indexes of a path of the engine."""
    found: list[Step] = []
    for quoted, number, name in _PART.findall(path):
        found.append(int(number) if number else name or re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL))
    return found


NAMES = ("name", "pool", "deviceName", "sid", "Sid", "id", "key")
"""The properties that can identify entries, in order of preference."""


def places(entries: Sequence[Any], name: str) -> dict[str, int]:
    """Return the index of each name in a list. Empty if an entry has no name, or two have the same."""
    found = {
        entry[name]: index
        for index, entry in enumerate(entries)
        if isinstance(entry, Mapping) and isinstance(entry.get(name), str) and is_plain(entry[name])
    }
    return found if len(found) == len(entries) else {}


def name_of(*lists: Sequence[Any]) -> str:
    """Return the property that names all entries of these lists, or an empty text. An empty list fits any property."""
    return next((name for name in NAMES if all(places(each, name) or not each for each in lists)), "")
