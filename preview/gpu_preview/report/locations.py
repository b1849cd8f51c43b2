"""Locates findings in the head's files: the lines of a pool in its stack file, or the place in the program."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml
from gpu_ci.stack.lines import entry
from gpu_ci.stack.pools import POOLS

from .. import stack_yaml
from ..diff.paths import Step, steps_of
from ..engine.states import Change
from ..model import Finding, Place
from . import source_locations

# Such as gpu-ci:pools.t4.machineType.
_KEY = re.compile(r"\b[A-Za-z][\w-]*:[A-Za-z][\w.\[\]-]*")


@dataclass(frozen=True)
class StackLines:
    """The lines of one stack file."""

    file: str
    """Relative to the root of the repository."""
    root: yaml.Node | None

    @classmethod
    def read(cls, path: Path, file: str) -> StackLines:
        """Return the lines of a file. A file that cannot be read has none, and all findings are at its first line."""
        try:
            return cls(file, stack_yaml.compose(path))
        except stack_yaml.InvalidStackFileError:
            return cls(file, None)

    def at(self, steps: Iterable[Step]) -> Place:
        """Return the lines of a value under `config:`, from key to end. A missing value has those of its parent."""
        place, node = Place(file=self.file, line=1, end_line=1), self.root
        for step in ("config", *steps):
            found = entry(node, step)
            if found is None:
                break
            key, node = found
            line = key.start_mark.line + 1
            place = Place(file=self.file, line=line, end_line=max(line, _last_line(node)))
        return place

    def has(self, *steps: Step) -> bool:
        node = self.root
        for step in ("config", *steps):
            found = entry(node, step)
            if found is None:
                return False
            node = found[1]
        return True

    def of_pool(self, name: str, before: StackLines | None = None) -> Place:
        """Return the lines of the one key of a pool that is new or differs.

        With several such keys or none, return the whole pool. If the pool is gone, return the line of all pools.
        """
        whole = self.at((POOLS, name))
        if not self.has(POOLS, name):
            return self._first(whole)
        if before is None or not before.has(POOLS, name):
            return whole
        changed = list(_changed(before._node(POOLS, name), self._node(POOLS, name)))
        return self.at((POOLS, name, *changed[0])) if len(changed) == 1 else whole

    @property
    def config(self) -> yaml.Node | None:
        """Return the node under `config:`."""
        return self._node()

    def _node(self, *steps: Step) -> yaml.Node | None:
        node = self.root
        for step in ("config", *steps):
            found = entry(node, step)
            node = found[1] if found else None
        return node

    @staticmethod
    def _first(place: Place) -> Place:
        return place.model_copy(update={"end_line": place.line})


def of_error(text: str, path: Path, file: str, root: Path | None = None) -> Place | None:
    """Return the first place in a stack file that an error names, by line or by key.

    Otherwise, return the last call of a traceback in a file below `root`, or None. A missing key has the line of its
    parent.
    """
    if found := re.search(rf"{re.escape(path.name)}: line (\d{{1,7}})\b", text):
        return Place(file=file, line=max(1, int(found[1])), end_line=max(1, int(found[1])))
    lines = StackLines.read(path, file)
    for match in _KEY.finditer(text):
        steps = steps_of(match[0].rstrip("."))
        if lines.has(*steps[:1]):
            place = lines.at(steps)
            return place if lines.has(*steps) else place.model_copy(update={"end_line": place.line})
    return source_locations.of_traceback(text, root) if root else None


@dataclass(frozen=True)
class SourceFiles:
    """The files that locate a finding: the stack files of both revisions, and the files of the program."""

    root: Path
    """The root of the head's files."""
    project: str = ""
    """The folder of Pulumi.yaml, relative to the root."""
    lines: StackLines | None = None
    """The stack file of the head."""
    before: StackLines | None = None
    """The stack file of the base."""
    base: Path | None = None
    """The root of the base's files, or None."""

    @cached_property
    def has_same_file(self) -> bool:
        """Return True if the stack file is the same in base and head."""
        if self.lines is None or self.before is None or self.lines.root is None or self.before.root is None:
            return False
        return _text(self.lines.root) == _text(self.before.root)

    @cached_property
    def only_change(self) -> Place | None:
        """Return the one key under `config:` that is new or differs, or None for none or several."""
        if self.lines is None or self.before is None:
            return None
        changed = list(_changed(self.before.config, self.lines.config))
        return self.lines.at(changed[0]) if len(changed) == 1 and changed[0] else None


def of_pool_or_source(finding: Finding, change: Change | None, compared: SourceFiles) -> Place | None:
    """Return the lines of a resource's pool in the stack file of base or head, else its place in the program."""
    return _of_pool(finding, compared) or next(iter(_calls(change, compared)), None)


def of_change(finding: Finding, change: Change | None, compared: SourceFiles) -> Place | None:
    """Return the place of the change that affects a resource.

    The place is in the program if the stack file is the same in base and head. It is the one key of the stack file that
    differs if the program's files for the resource are the same.
    """
    calls = _calls(change, compared)
    changed = [
        call
        for call in calls
        if compared.base and not source_locations.is_same(call.file, compared.root, compared.base)
    ]
    in_source = next(iter((*changed, *calls)), None)
    if in_pool := _of_pool(finding, compared):
        return in_source if in_source and compared.has_same_file else in_pool
    return compared.only_change or in_source if in_source and compared.base and not changed else in_source


def _of_pool(finding: Finding, compared: SourceFiles) -> Place | None:
    pool = finding.component
    known = bool(pool) and any(side.has(POOLS, pool) for side in (compared.lines, compared.before) if side)
    return compared.lines.of_pool(pool, compared.before) if compared.lines and known else None


def _calls(change: Change | None, compared: SourceFiles) -> list[Place]:
    """Return the calls of the program that create the resource, the innermost first."""
    if change is None or change.after is None:
        return []
    return list(source_locations.of_source(change.after.positions, compared.root, compared.project))


def _last_line(value: yaml.Node) -> int:
    """Return the last line with content of a node. The end that YAML reports is where the next node begins.

    A block of text keeps the blank lines below it. An alias has the line of its anchor, which is always further up.
    """
    last, remaining, visited = 0, [value], set()
    while remaining:
        node = remaining.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        children = stack_yaml.children(node)
        remaining += children
        if not children or getattr(node, "flow_style", False):
            last = max(last, node.end_mark.line + (1 if node.end_mark.column else 0))
    return last


def _changed(before: yaml.Node | None, after: yaml.Node | None) -> Iterator[tuple[Step, ...]]:
    """Yield the paths of the keys of a map that are new or differ.

    A path leads deeper as long as only one value below a key differs. A removed key has no line, so its path is empty:
    that is the map itself.
    """
    if not isinstance(before, yaml.MappingNode) or not isinstance(after, yaml.MappingNode):
        return
    old = {key.value: value for key, value in before.value if isinstance(key, yaml.ScalarNode)}
    for key, value in after.value:
        name = key.value
        if not isinstance(name, str) or (name in old and _text(old[name]) == _text(value)):
            continue
        deeper = list(_changed(old.get(name), value))
        yield (name, *deeper[0]) if len(deeper) == 1 else (name,)
    yield from (() for name in old.keys() - {key.value for key, _ in after.value if isinstance(key, yaml.ScalarNode)})


def _text(node: yaml.Node) -> str:
    return yaml.serialize(node, Dumper=yaml.SafeDumper)
