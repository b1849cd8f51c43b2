"""Compare the old and new inputs of a resource, and decide whether a change updates or replaces it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulumi.runtime.proto import provider_pb2 as pb

from pulumi_sandbox.providers import paths
from pulumi_sandbox.providers.inputs import without_bridge_keys
from pulumi_sandbox.providers.values import NO_SECRETS, STRIPPED, UNKNOWN, Path, Secrets, is_at_or_below, leaves

# same(path, old, new): True if the vendor treats two different values as equal.
Same = Callable[[str, Any, Any], bool]

ADD, DELETE, UPDATE = "ADD", "DELETE", "UPDATE"


@dataclass(frozen=True)
class Change:
    """One changed property, at the deepest path that changed."""

    path: Path
    kind: str
    old: Any = None
    new: Any = None
    # True if the same value is now a secret. Nothing changes at the vendor. The state must encrypt the value.
    secrecy: bool = False
    # True if the change replaces the resource, even if the table of the type does not have its path.
    replacing: bool = False

    @property
    def text(self) -> str:
        return paths.text(self.path)


def never_same(_: str, __: Any, ___: Any) -> bool:
    return False


@dataclass(frozen=True)
class Comparison:
    """The settings of a comparison of two sets of inputs."""

    same: Same = never_same
    # The Terraform bridge treats an empty list or map as missing.
    empty_is_missing: bool = False

    def changes(self, old: Any, new: Any, path: Path) -> Iterator[Change]:
        """Yield the changes from an old to a new value, each of which may be missing or unknown."""
        if new is UNKNOWN:
            yield Change(path, ADD if self._missing(old) else UPDATE, old, new)
        elif self._missing(old) or self._missing(new):
            if not (self._missing(old) and self._missing(new)):
                yield Change(path, ADD if self._missing(old) else DELETE, old, new)
        elif not self.same(paths.text(path), old, new):
            yield from self.within(old, new, path)

    def within(self, old: Any, new: Any, path: Path = ()) -> Iterator[Change]:
        """Yield the changes from an old to a new value that both exist: by key, by list item, or of the whole value."""
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            # A default value that the bridge recorded in the state is not in the program, and would be set again.
            defaults = {name for name in old.get("__defaults") or () if new.get(name) is None}
            # Only the bridge uses keys that begin with two underscores (`__defaults`).
            for key in sorted(name for name in old.keys() | new.keys() if not name.startswith("__")):
                if key not in defaults:
                    yield from self.changes(old.get(key), new.get(key), (*path, key))
        elif isinstance(old, list | tuple) and isinstance(new, list | tuple):
            for index in range(max(len(old), len(new))):
                old_item, new_item = (state[index] if index < len(state) else None for state in (old, new))
                if index >= len(old) or index >= len(new):  # an item that is None or empty counts as an item
                    yield Change((*path, index), ADD if index >= len(old) else DELETE, old_item, new_item)
                else:
                    yield from self.changes(old_item, new_item, (*path, index))
        elif isinstance(old, bool) is not isinstance(new, bool) or old != new:  # in Python, True == 1
            yield Change(path, UPDATE, old, new)

    def _missing(self, value: Any) -> bool:
        value = without_bridge_keys(value) if isinstance(value, Mapping) else value
        return value is None or (self.empty_is_missing and isinstance(value, list | tuple | Mapping) and not value)


def compare(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    *,
    ignored: Sequence[str] = (),
    old_secrets: Secrets = NO_SECRETS,
    new_secrets: Secrets = NO_SECRETS,
    comparison: Comparison | None = None,
) -> list[Change]:
    """Return every change from `old` to `new`, without the paths in ignoreChanges."""
    stripped = {path for path, value in leaves(old) if value == STRIPPED and _overlaps(path, new_secrets)}
    changes = [one for one in (comparison or Comparison()).within(old, new) if not is_at_or_below(one.path, stripped)]
    changed_paths = {change.path for change in changes}
    for path in sorted(new_secrets, key=paths.text):
        has_change = _overlaps(path, frozenset(changed_paths))
        if not has_change and not is_at_or_below(path, old_secrets):
            changes.append(Change(path, UPDATE, secrecy=True))
    return without_ignored(changes, ignored)


def without_ignored(changes: Iterable[Change], ignored: Sequence[str]) -> list[Change]:
    """Return the changes without the paths in ignoreChanges."""
    patterns = patterns_of(ignored)
    return [change for change in changes if not any(paths.inside(change.path, one) for one in patterns)]


def _overlaps(path: Path, secrets: Secrets) -> bool:
    """Return True if a secret is at the path, above it or below it."""
    return is_at_or_below(path, secrets) or any(is_at_or_below(one, {path}) for one in secrets)


def patterns_of(ignored: Sequence[str]) -> list[Path]:
    patterns = []
    for path_text in ignored:
        try:
            patterns.append(paths.parse(path_text))
        except ValueError:  # the engine itself reports a malformed path
            continue
    return patterns


def is_replacing(change: Change, replaces: Callable[[str], bool | None]) -> bool | None:
    """Return True if the change replaces the resource, or None for a type without a table.

    An added or removed list item or object replaces if a change of any value in it does.
    """
    if change.secrecy or change.replacing:
        return change.replacing
    by_table = replaces(change.text)
    if by_table is not False:
        return by_table
    for state in (change.old, change.new):
        for inner_path, _ in leaves(state, change.path):
            for length in range(len(change.path) + 1, len(inner_path) + 1):
                if replaces(paths.text(inner_path[:length])):
                    return True
    return False


def response(
    changes: Collection[Change], replaces: Callable[[str], bool | None], *, delete_first: bool = False
) -> pb.DiffResponse:
    """Convert changes to the engine's form: a detailed diff with every path, and the top-level properties."""
    if not changes:
        return pb.DiffResponse(changes=pb.DiffResponse.DIFF_NONE, hasDetailedDiff=True)
    detailed: dict[str, pb.PropertyDiff] = {}
    replaced: set[str] = set()
    for change in changes:
        replacing = bool(is_replacing(change, replaces))
        kind = f"{change.kind}_REPLACE" if replacing else change.kind
        detailed[change.text] = pb.PropertyDiff(kind=pb.PropertyDiff.Kind.Value(kind), inputDiff=True)
        if replacing:
            replaced.add(str(change.path[0]))
    return pb.DiffResponse(
        changes=pb.DiffResponse.DIFF_SOME,
        diffs=sorted({str(change.path[0]) for change in changes}),
        replaces=sorted(replaced),
        deleteBeforeReplace=bool(replaced) and delete_first,
        hasDetailedDiff=True,
        detailedDiff=detailed,
    )
