"""Compares a resource before and after, property by property."""

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


class Hint(NamedTuple):
    """The engine's difference at one path."""

    kind: str
    input_diff: bool

    @property
    def replaces(self) -> bool:
        return self.kind.endswith("replace")


def between(
    before: Any, after: Any, path: str = "", replaces: bool = False, depth: int = 0, mask: SecretMask | None = None
) -> Iterator[PropertyChange]:
    """Every leaf that differs. A secret that is plain on the other side is not shown there either, wherever it is in
    the same property: `veil` is of the whole of that, and made of these values where none is given.

    What lies deeper than any value does, such as a JSON text in a JSON text in another one, is a leaf.
    """
    if before is ABSENT or after is ABSENT or is_unknown(before) or is_unknown(after) or depth >= DEEPEST:
        if before is not after and not _same(before, after):
            yield _change(path, before, after, replaces, mask or SecretMask.of(before, after))
    elif isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted({*before, *after} - {"__defaults"}, key=str):
            one, other = before.get(key, ABSENT), after.get(key, ABSENT)
            own = mask or (SecretMask.of(one, other) if one != other else SecretMask())
            yield from between(one, other, joined(path, key), replaces, depth + 1, own)
    elif isinstance(before, list) and isinstance(after, list) and not _reordered(before, after):
        own = mask or SecretMask.of(before, after)
        for at, one, other in _matched(before, after):
            yield from between(one, other, joined(path, at), replaces, depth + 1, own)
    elif (old := as_json(before)) is not None and (new := as_json(after)) is not None and type(old) is type(new):
        yield from between(old, new, f"{path}{IN_TEXT}", replaces, depth + 1, mask or SecretMask.of(before, after))
    elif not _same(before, after):
        yield _change(path, before, after, replaces, mask or SecretMask.of(before, after))


def _same(before: Any, after: Any) -> bool:
    """Compare values without Python's rule that True equals 1."""
    return type(before) is type(after) and bool(before == after)


def _reordered(before: list[Any], after: list[Any]) -> bool:
    """Return True for a list that is easier to read whole: plain values, with one added or removed in the middle."""
    plain = all(not isinstance(one, Mapping | list) for one in (*before, *after))
    return plain and len(before) != len(after)


def _matched(before: list[Any], after: list[Any]) -> list[tuple[int, Any, Any]]:
    """The parts of two lists, side by side: by their places, or by their names where fewer differ so.

    One that is gone has its old place, every other its new one.
    """
    by_place = [(at, _part(before, at), _part(after, at)) for at in range(max(len(before), len(after)))]
    for name in NAMES:
        old, new = (places(entries, name) for entries in (before, after))
        if not old or not new:
            continue
        stay = [old[each] for each in new if each in old]
        # A changed order is a difference. A comparison by name would hide it.
        by_name = list(_by_name(before, after, old, new)) if stay == sorted(stay) else by_place
        return min(by_name, by_place, key=lambda pairs: sum(not _same(one, other) for _, one, other in pairs))
    return by_place


def _part(pairs: list[Any], at: int) -> Any:
    return pairs[at] if at < len(pairs) else ABSENT


def _by_name(
    before: list[Any], after: list[Any], old: Mapping[str, int], new: Mapping[str, int]
) -> Iterator[tuple[int, Any, Any]]:
    gone = {at: before[at] for each, at in old.items() if each not in new}
    for each, at in new.items():
        # An added entry at the place of a removed one is shown as a changed entry.
        yield at, before[old[each]] if each in old else gone.pop(at, ABSENT), after[at]
    yield from ((at, one, ABSENT) for at, one in gone.items())


def _change(path: str, before: Any, after: Any, replaces: bool, mask: SecretMask) -> PropertyChange:
    kind: Literal["add", "delete", "update"] = "add" if before is ABSENT else "delete" if after is ABSENT else "update"
    key = str(next(reversed(steps_of(path)), ""))
    one = None if before is ABSENT else _hidden(before, after, hides=mask.masks(before, after=False, key=key))
    other = None if after is ABSENT else _hidden(after, before, hides=mask.masks(after, after=True, key=key))
    return PropertyChange(
        path=path,
        kind=kind,
        forces_replacement=replaces,
        before=one,
        after=ANOTHER_MAYBE if one == other == MAYBE_SECRET else other,
    )


def _hidden(value: Any, other: Any, *, hides: bool) -> str:
    if is_unknown(value):
        return shown(value)
    if is_secret(other) and not is_secret(value):
        return WAS_SECRET
    return MAYBE_SECRET if hides else shown(value)


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
    old: Mapping[str, Any], new: Mapping[str, Any], hints: Mapping[str, Hint], most: int = 10**9
) -> tuple[PropertyChange, ...]:
    """What the engine says differs, with its values; where it names no paths, what differs between the inputs.

    `old` and `new` are states of the engine's digest: maps with inputs and outputs. TooMuchError for more than `most`.
    """
    before, after = old.get("inputs") or {}, new.get("inputs") or {}
    found: dict[str, PropertyChange] = {}
    masks_of: dict[
        tuple[str, bool], SecretMask
    ] = {}  # One difference for a whole property, although the engine can name every part.
    for path, hint in hints.items():
        source = before if hint.input_diff else old.get("outputs") or before
        whole = joined("", steps_of(path)[0]) if steps_of(path) else ""
        if (key := (whole, source is before)) not in masks_of:
            masks_of[key] = SecretMask.of(at(source, whole), at(after, whole))
        changes = at_most(most, between(at(source, path), at(after, path), path, hint.replaces, mask=masks_of[key]))
        if not changes:  # A difference that the digest does not show, such as between two secrets.
            kind: Literal["add", "delete", "update"] = (
                "add" if hint.kind.startswith("add") else "delete" if hint.kind.startswith("delete") else "update"
            )
            one, other = at(source, path), at(after, path)
            told_after = None if other is ABSENT else shown(other)
            changes = [
                PropertyChange(
                    path=path,
                    kind=kind,
                    forces_replacement=hint.replaces,
                    before=None if one is ABSENT else shown(one),
                    after=ANOTHER_SECRET if one == other == SECRET else told_after,
                )
            ]
        found |= {change.path: change for change in changes}
        if len(found) > most:
            raise TooMuchError(_TOO_MUCH)
    if not hints:
        found = {change.path: change for change in at_most(most, between(before, after))}
    return tuple(found[path] for path in sorted(found))


def created(inputs: Mapping[str, Any], most: int = 10**9) -> tuple[PropertyChange, ...]:
    """Yield each top-level property of a new resource. TooMuchError for more than `most`."""
    if len(inputs) > most:
        raise TooMuchError(_TOO_MUCH)
    return tuple(
        PropertyChange(path=joined("", key), kind="add", after=shown(value))
        for key, value in sorted(inputs.items())
        if key != "__defaults"
    )


def at_most(most: int, changes: Iterator[PropertyChange]) -> list[PropertyChange]:
    """Return all items. TooMuchError for more than the limit, before they are created."""
    found = list(itertools.islice(changes, most + 1))
    if len(found) > most:
        raise TooMuchError(_TOO_MUCH)
    return found


def hints(step: Mapping[str, Any]) -> dict[str, Hint]:
    """Return the paths in the engine's step: its detailed diff, or the names of top-level properties."""
    detailed = step.get("detailedDiff")
    if isinstance(detailed, Mapping) and detailed:
        return {
            path: Hint(str(one.get("kind", "update")), bool(one.get("inputDiff"))) for path, one in detailed.items()
        }
    reasons: Sequence[str] = step.get("diffReasons") or ()
    keys = set(step.get("replaceReasons") or ())
    return {name: Hint("update-replace" if name in keys else "update", True) for name in [*reasons, *sorted(keys)]}
