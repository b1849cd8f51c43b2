"""Compares the values of a resource before and after, and lists the properties that differ.

`before` and `after` are the values in base and head. TooMuchError is raised if more properties differ than `most`, the
limit of a report.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from ..json_text import DEEPEST, TooMuchError
from ..model import PropertyChange
from .list_identity import NAMES, places
from .moved_secrets import ANOTHER_MAYBE, MAYBE_SECRET, SecretMask
from .paths import IN_TEXT, joined, steps_of
from .placeholders import SECRET, is_unknown
from .values import ANOTHER_SECRET, WAS_SECRET, as_json, is_secret, shown

_TOO_MUCH = "more properties differ than a report holds"


class Missing:
    """Marks a missing value. None is a value."""


ABSENT = Missing()


class EngineDiff(NamedTuple):
    """The difference that the engine reports at one path."""

    kind: str
    input_diff: bool

    @property
    def replaces(self) -> bool:
        return self.kind.endswith("replace")


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
    elif (old := as_json(before)) is not None and (new := as_json(after)) is not None and type(old) is type(new):
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
    """Pair the entries of two lists by index, or by name if fewer entries differ then.

    Each pair begins with an index: the old index of a removed entry, and the new index of every other.
    """
    by_index = [(index, _entry(before, index), _entry(after, index)) for index in range(max(len(before), len(after)))]
    for name in NAMES:
        old, new = (places(entries, name) for entries in (before, after))
        if not old or not new:
            continue
        kept = [old[each] for each in new if each in old]
        # A changed order is a difference. A comparison by name would hide it.
        by_name = list(_by_name(before, after, old, new)) if kept == sorted(kept) else by_index
        return min(by_name, by_index, key=lambda pairs: sum(not _same(one, other) for _, one, other in pairs))
    return by_index


def _entry(entries: list[Any], index: int) -> Any:
    return entries[index] if index < len(entries) else ABSENT


def _by_name(
    before: list[Any], after: list[Any], old: Mapping[str, int], new: Mapping[str, int]
) -> Iterator[tuple[int, Any, Any]]:
    """Pair the entries of two lists by name. `old` and `new` have the index of each name."""
    removed = {index: before[index] for name, index in old.items() if name not in new}
    for name, index in new.items():
        # An added entry at the index of a removed one is shown as a changed entry.
        yield index, before[old[name]] if name in old else removed.pop(index, ABSENT), after[index]
    yield from ((index, entry, ABSENT) for index, entry in removed.items())


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
            kind: Literal["add", "delete", "update"] = (
                "add" if diff.kind.startswith("add") else "delete" if diff.kind.startswith("delete") else "update"
            )
            old_value, new_value = at(source, path), at(after, path)
            shown_after = None if new_value is ABSENT else shown(new_value)
            changes = [
                PropertyChange(
                    path=path,
                    kind=kind,
                    forces_replacement=diff.replaces,
                    before=None if old_value is ABSENT else shown(old_value),
                    after=ANOTHER_SECRET if old_value == new_value == SECRET else shown_after,
                )
            ]
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
    found = list(itertools.islice(changes, most + 1))
    if len(found) > most:
        raise TooMuchError(_TOO_MUCH)
    return found


def engine_diffs(step: Mapping[str, Any]) -> dict[str, EngineDiff]:
    """Return the paths in the engine's step: its detailed diff, or the names of top-level properties."""
    detailed = step.get("detailedDiff")
    if isinstance(detailed, Mapping) and detailed:
        return {
            path: EngineDiff(str(one.get("kind", "update")), bool(one.get("inputDiff")))
            for path, one in detailed.items()
        }
    reasons: Sequence[str] = step.get("diffReasons") or ()
    keys = set(step.get("replaceReasons") or ())
    return {
        name: EngineDiff("update-replace" if name in keys else "update", True) for name in [*reasons, *sorted(keys)]
    }
