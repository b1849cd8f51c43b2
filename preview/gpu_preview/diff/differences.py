"""Compares the values of a resource before and after, and lists the properties that differ.

`before` and `after` are the values in base and head. TooMuchError is raised if more properties differ than `most`, the
limit of a report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Any, Literal, NamedTuple

from ..json_text import DEEPEST, TooMuchError
from ..model import PropertyChange
from .value_pairs import IN_TEXT, NAMES, decoded, joined, name_of, places, steps_of
from .values import ANOTHER_SECRET, SECRET, WAS_SECRET, is_plain, is_secret, is_unknown, shown

_TOO_MUCH = "more properties differ than a report holds"


class Missing:
    """Marks a missing value. None is a value."""


ABSENT = Missing()


class EngineDiff(NamedTuple):
    """The difference that the engine reports at one path."""

    replaces: bool
    """True if it forces a replacement."""
    input_diff: bool


def between(
    before: Any, after: Any, path: str = "", replaces: bool = False, depth: int = 0, mask: SecretMask | None = None
) -> Iterator[PropertyChange]:
    """Yield every leaf that differs between two values of a property.

    Values deeper than DEEPEST are compared whole, such as a JSON text in a JSON text in a JSON text.

    Args:
        before: The value in base, or ABSENT.
        after: The value in head, or ABSENT.
        path: The path of the value in the resource, in the engine's form.
        replaces: True if the difference forces a replacement.
        depth: The number of maps and lists around the value.
        mask: Hides plain values of a whole property that may be its secret in the other revision. Without a mask, one
            is created from `before` and `after`.
    """
    if before is ABSENT or after is ABSENT or is_unknown(before) or is_unknown(after) or depth >= DEEPEST:
        if before is not after and not _same(before, after):
            yield _change(path, before, after, replaces, mask or SecretMask.of(before, after))
    elif isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted({*before, *after} - {"__defaults"}, key=str):
            old_value, new_value = before.get(key, ABSENT), after.get(key, ABSENT)
            own_mask = mask or (SecretMask.of(old_value, new_value) if old_value != new_value else SecretMask())
            yield from between(old_value, new_value, joined(path, key), replaces, depth + 1, own_mask)
    elif isinstance(before, list) and isinstance(after, list) and not _is_shown_whole(before, after):
        own_mask = mask or SecretMask.of(before, after)
        for index, old_entry, new_entry in _matched(before, after):
            yield from between(old_entry, new_entry, joined(path, index), replaces, depth + 1, own_mask)
    elif (old := decoded(before)) is not before and type(old) is type(new := decoded(after)) and new is not after:
        yield from between(old, new, f"{path}{IN_TEXT}", replaces, depth + 1, mask or SecretMask.of(before, after))
    elif not _same(before, after):
        yield _change(path, before, after, replaces, mask or SecretMask.of(before, after))


def _same(before: Any, after: Any) -> bool:
    """Compare values without Python's rule that True equals 1."""
    return type(before) is type(after) and bool(before == after)


def _is_shown_whole(before: list[Any], after: list[Any]) -> bool:
    """Return True for lists of plain values with different lengths, which are easier to read whole."""
    plain = all(not isinstance(one, Mapping | list) for one in (*before, *after))
    return plain and len(before) != len(after)


def _matched(before: list[Any], after: list[Any]) -> list[tuple[int, Any, Any]]:
    """Pair the entries of two lists by name, or by index if entries have no name or another order.

    Each pair begins with an index: the old index of a removed entry, and the new index of every other.
    """
    name = name_of(before, after)
    old, new = places(before, name), places(after, name)
    kept = [old[each] for each in new if each in old]
    # A changed order is a difference. A comparison by name would hide it.
    if not (old and new) or kept != sorted(kept):
        return [(at, *pair) for at, pair in enumerate(zip_longest(before, after, fillvalue=ABSENT))]
    removed = {index: before[index] for each, index in old.items() if each not in new}
    # An added entry at the index of a removed one is shown as a changed entry.
    pairs = [(at, before[old[each]] if each in old else removed.pop(at, ABSENT), after[at]) for each, at in new.items()]
    return [*pairs, *((index, entry, ABSENT) for index, entry in removed.items())]


def _change(path: str, before: Any, after: Any, replaces: bool, mask: SecretMask) -> PropertyChange:
    kind: Literal["add", "delete", "update"] = "add" if before is ABSENT else "delete" if after is ABSENT else "update"
    key = str(next(reversed(steps_of(path)), ""))
    old = None if before is ABSENT else _masked(before, after, mask.masks(before, after=False, key=key))
    new = None if after is ABSENT else _masked(after, before, mask.masks(after, after=True, key=key))
    return PropertyChange(
        path=path,
        kind=kind,
        forces_replacement=replaces,
        before=old,
        after=ANOTHER_MAYBE if old == new == MAYBE_SECRET else new,
    )


def _masked(value: Any, other: Any, may_be_secret: bool) -> str:
    """Return the text for a value, without a value that is a secret in the other revision or may be one."""
    if is_unknown(value):
        return shown(value)
    if is_secret(other) and not is_secret(value):
        return WAS_SECRET
    return MAYBE_SECRET if may_be_secret else shown(value)


def at(value: Any, path: str) -> Any:
    """Return the value at a path of the engine, or ABSENT. Everything below a secret is secret."""
    for part in steps_of(path):
        if value == SECRET:
            return SECRET
        if isinstance(part, int) and isinstance(value, list) and part < len(value):
            value = value[part]
        elif isinstance(value, Mapping) and str(part) in value:
            value = value[str(part)]
        else:
            return ABSENT
    return value


def reported(
    old: Mapping[str, Any], new: Mapping[str, Any], engine_diffs: Mapping[str, EngineDiff], most: int = 10**9
) -> tuple[PropertyChange, ...]:
    """Return the changes at the paths that the engine names (`engine_diffs`), or of all inputs if it names none.

    `old` and `new` are states of the engine's digest: maps with inputs and outputs.
    """
    before, after = old.get("inputs") or {}, new.get("inputs") or {}
    found: dict[str, PropertyChange] = {}
    # One mask for a whole property of the inputs or outputs, although the engine can name every part of it.
    masks_of: dict[tuple[str, bool], SecretMask] = {}
    for path, diff in engine_diffs.items():
        source = before if diff.input_diff else old.get("outputs") or before
        whole = joined("", steps_of(path)[0]) if steps_of(path) else ""
        if (key := (whole, source is before)) not in masks_of:
            masks_of[key] = SecretMask.of(at(source, whole), at(after, whole))
        changes = at_most(most, between(at(source, path), at(after, path), path, diff.replaces, mask=masks_of[key]))
        if not changes:  # A difference that the digest does not show, such as between two secrets.
            change = _change(path, at(source, path), at(after, path), diff.replaces, SecretMask())
            if change.before == change.after == SECRET:
                change = change.model_copy(update={"after": ANOTHER_SECRET})
            changes = [change]
        found |= {change.path: change for change in changes}
        if len(found) > most:
            raise TooMuchError(_TOO_MUCH)
    if not engine_diffs:
        found = {change.path: change for change in at_most(most, between(before, after))}
    return tuple(found[path] for path in sorted(found))


def created(inputs: Mapping[str, Any], most: int = 10**9) -> tuple[PropertyChange, ...]:
    """Return each top-level property of a new resource."""
    if len(inputs) > most:
        raise TooMuchError(_TOO_MUCH)
    return tuple(
        PropertyChange(path=joined("", key), kind="add", after=shown(value))
        for key, value in sorted(inputs.items())
        if key != "__defaults"
    )


def at_most(most: int, changes: Iterator[PropertyChange]) -> list[PropertyChange]:
    """Return all changes. More than `most` raise TooMuchError before the rest is created."""
    found = list(islice(changes, most + 1))
    if len(found) > most:
        raise TooMuchError(_TOO_MUCH)
    return found


def engine_diffs(step: Mapping[str, Any]) -> dict[str, EngineDiff]:
    """Return the paths in the engine's step: its detailed diff, or the names of top-level properties."""
    if detailed := step.get("detailedDiff"):
        return {
            path: EngineDiff(str(one.get("kind")).endswith("replace"), bool(one.get("inputDiff")))
            for path, one in detailed.items()
        }
    changed, replacing = (step.get(key) or () for key in ("diffReasons", "replaceReasons"))
    return {name: EngineDiff(name in replacing, True) for name in (*changed, *sorted(replacing))}


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
