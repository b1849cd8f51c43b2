"""Pairs the values of a property in base and head, down to their leaves, also inside JSON texts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import json_text
from . import paths
from .list_identity import name_of
from .paths import Step
from .placeholders import SECRET, is_told

# No provider schema nests half as deep. A hostile value can nest without limit.
DEEPEST = 64
# A longer text is a file, not a policy or a configuration.
_LONGEST_JSON = 200_000


@dataclass(frozen=True)
class ValuePair:
    """One value in base and head. None if a revision has the parent and not the value."""

    path: tuple[Step, ...]
    """The steps; a `#` precedes the parts of a JSON text."""
    before: Any
    after: Any

    @property
    def key(self) -> str:
        """The last name in the path."""
        return next((step for step in reversed(self.path) if isinstance(step, str)), "")

    @property
    def keys(self) -> tuple[str, ...]:
        """The names in the path, without the positions in lists."""
        return tuple(step for step in self.path if isinstance(step, str) and step != paths.IN_TEXT)

    @property
    def text(self) -> str:
        """The path in the engine's form, with the parts of a JSON text after a `#`."""
        return paths.written(self.path)


def pairs(before: Any, after: Any) -> Iterator[ValuePair]:
    """Yield every value and its parts, in base and head. Missing, secret and unknown values have no parts."""
    left: list[tuple[tuple[Step, ...], Any, Any]] = [((), before, after)]
    while left:
        path, one, other = left.pop()
        if path:
            yield ValuePair(path, one, other)
        if len(path) >= DEEPEST:
            continue
        was, now = decoded(one), decoded(other)
        path = (*path, paths.IN_TEXT) if now is not other else path
        if isinstance(now, Mapping):
            old = was if isinstance(was, Mapping) else {}
            keys = [key for key in {**now, **old} if isinstance(key, str)]
            left += [((*path, key), old.get(key), now.get(key)) for key in reversed(keys)]
        elif isinstance(now, list):
            elements = list(_matched(was if isinstance(was, list) else [], now))
            left += [((*path, index), *both) for index, *both in reversed(elements)]


def revealed(before: Any, after: Any) -> Iterator[ValuePair]:
    """Yield values that were secret and are plain now, at the same place or with the same name."""
    if before == after:  # Most values of a stack are equal, and comparing all takes a second for 100 pools.
        return
    yield from (pair for pair in pairs(before, after) if pair.before == SECRET and plain(pair.after))


def plain(value: Any) -> bool:
    """Return True if a value exists, is known, and is not secret, or if any part of a map or list is so."""
    return any(is_told(leaf) for _, leaf in leaves(value))


def leaves(value: Any) -> tuple[tuple[tuple[Step, ...], Any], ...]:
    """Yield every leaf of a value with its path, as hashable values."""
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
    """The parts of two lists: the same names together, the same plain values together, and the rest in order.

    Here the order is of no meaning: a rule asks what becomes of a thing. Of what is shown it has one (differences.py).
    """
    name = name_of(before, after)
    old: dict[Any, deque[int]] = {}
    for index, value in enumerate(before):
        old.setdefault(_mark(value, name), deque()).append(index)
    together = {at: old[mark].popleft() for at, value in enumerate(after) if old.get(mark := _mark(value, name))}
    taken = set(together.values())
    rest = deque(() if name else (index for index in range(len(before)) if index not in taken))
    for index, value in enumerate(after):
        at = together.get(index, rest.popleft() if index not in together and rest else None)
        yield index, None if at is None else before[at], value


def _mark(value: Any, name: str) -> Any:
    """Return the identity of a list entry. Maps and lists without a name are identified by their position."""
    if name:
        return value[name]
    return (type(value), value) if isinstance(value, str | int | float) else object()
