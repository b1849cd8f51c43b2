"""Redacts plain values of a property that may be a secret of the other revision.

Example: a list entry moves, or a map key changes, and the program no longer marks its value as secret. The secret was
at the old path, and the same value is now plain text at a new path. The engine and the report compare values by path,
and nothing marks the value at the new path as secret.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .list_identity import NAMES, name_of
from .placeholders import SECRET, is_plain
from .value_pairs import DEEPEST, decoded

MAYBE_SECRET = "[not shown: a secret is gone from here, and this may be it]"  # noqa: S105
ANOTHER_MAYBE = "[another value, not shown either]"
_Path = tuple[str, ...]


@dataclass(frozen=True)
class SecretMask:
    """The values of one property that a report can show, because they are plain in the other revision too."""

    before: frozenset[Any] | None = None
    """The values of the base that can be shown. None: all can be shown."""
    after: frozenset[Any] | None = None
    """The values of the head that can be shown. None: all can be shown."""

    @classmethod
    def of(cls, before: Any, after: Any) -> SecretMask:
        """Create the mask of a whole property, which is the value of a top-level name."""
        old, new = (list(_leaves(values)) for values in (before, after))
        old_secrets, new_secrets = _secrets(old), _secrets(new)
        return cls(
            _plain_values(new) if new_secrets - old_secrets else None,
            _plain_values(old) if old_secrets - new_secrets else None,
        )

    def masks(self, value: Any, *, after: bool, key: str = "") -> bool:
        """Return True if a value of this revision, or a part of it, may be a secret of the other revision."""
        can_show = self.after if after else self.before
        return can_show is not None and any(_masks(path, leaf, can_show) for path, leaf in _leaves(value, (key,)))


def exposes_secret(before: Any, after: Any) -> bool:
    """Return True if a property lost a secret and got a new plain value."""
    return SecretMask.of(before, after).masks(after, after=True)


def _masks(path: _Path, leaf: Any, can_show: frozenset[Any]) -> bool:
    is_name = path[-1:] and path[-1] in NAMES
    is_value = is_plain(leaf) and isinstance(leaf, str | int | float) and not isinstance(leaf, bool)
    return is_value and not is_name and _with_type(leaf) not in can_show


def _secrets(leaves: list[tuple[_Path, Any]]) -> Counter[_Path]:
    """Return the number of secrets at each path."""
    return Counter(path for path, leaf in leaves if leaf == SECRET)


def _plain_values(leaves: list[tuple[_Path, Any]]) -> frozenset[Any]:
    return frozenset(_with_type(leaf) for _, leaf in leaves if is_plain(leaf))


def _with_type(leaf: Any) -> Any:
    """Return a key for the leaf, in which True and 1 differ."""
    return type(leaf), leaf


def _leaves(value: Any, path: _Path = (), depth: int = 0) -> Iterator[tuple[_Path, Any]]:
    """Yield every leaf with its path. For a list entry, the path has the entry's name, or nothing if it has none."""
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
