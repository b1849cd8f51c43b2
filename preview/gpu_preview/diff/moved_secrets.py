"""Redacts plain values of a property that may be a secret of the other revision.

If list entries move or a map key changes, a secret can be at one place before, and in plain text at another after. The
engine and the report name differences by place, and the value at the new place was never marked as secret.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .list_identity import NAMES, name_of
from .placeholders import SECRET, is_told
from .value_pairs import DEEPEST, decoded

MAYBE_SECRET = "[not shown: a secret is gone from here, and this may be it]"  # noqa: S105
ANOTHER_MAYBE = "[another value, not shown either]"
_Path = tuple[str, ...]


@dataclass(frozen=True)
class SecretMask:
    """One property in base and head. A value that was plain in the other revision too is not redacted."""

    before: frozenset[Any] | None = None
    """The values of the base that can be shown, if not all can."""
    after: frozenset[Any] | None = None

    @classmethod
    def of(cls, before: Any, after: Any) -> SecretMask:
        """Create the mask of a whole property, which is the value of a top-level name."""
        was, now = (list(_leaves(values)) for values in (before, after))
        lost, gained = _secrets(was), _secrets(now)
        return cls(_plain(now) if gained - lost else None, _plain(was) if lost - gained else None)

    def masks(self, value: Any, *, after: bool, key: str = "") -> bool:
        """Return True if a value of this revision, or a part of it, may be a secret of the other revision."""
        known = self.after if after else self.before
        return known is not None and any(_hidden(path, leaf, known) for path, leaf in _leaves(value, (key,)))


def exposes_secret(before: Any, after: Any) -> bool:
    """Return True if a property lost a secret and got a new plain value."""
    return SecretMask.of(before, after).masks(after, after=True)


def _hidden(path: _Path, leaf: Any, known: frozenset[Any]) -> bool:
    is_name = path[-1:] and path[-1] in NAMES
    is_value = is_told(leaf) and isinstance(leaf, str | int | float) and not isinstance(leaf, bool)
    return is_value and not is_name and _mark(leaf) not in known


def _secrets(leaves: list[tuple[_Path, Any]]) -> Counter[_Path]:
    return Counter(path for path, leaf in leaves if leaf == SECRET)


def _plain(leaves: list[tuple[_Path, Any]]) -> frozenset[Any]:
    return frozenset(_mark(leaf) for _, leaf in leaves if is_told(leaf))


def _mark(leaf: Any) -> Any:
    return type(leaf), leaf


def _leaves(value: Any, path: _Path = (), depth: int = 0) -> Iterator[tuple[_Path, Any]]:
    """Yield every leaf. A list entry has its name as step, and no step without a name."""
    inside = decoded(value)
    if depth >= DEEPEST or not isinstance(inside, Mapping | list):
        yield path, None if isinstance(value, Mapping | list) else value
    elif isinstance(inside, Mapping):
        for key, one in inside.items():
            yield from _leaves(one, (*path, str(key)), depth + 1)
    else:
        name = name_of(inside)
        for one in inside:
            yield from _leaves(one, (*path, one[name]) if name else path, depth + 1)
