"""Locates findings in the head's files: the lines of a pool in its stack file, or the place in the program."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

import yaml
from gpu_ci.stack.lines import entry
from gpu_ci.stack.pools import POOLS

from .. import pulumi_files
from ..diff.value_pairs import Step, steps_of
from ..engine.states import Change
from ..isolation import files
from ..model import Finding, Place

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
            return cls(file, pulumi_files.compose(path))
        except pulumi_files.InvalidStackFileError:
            return cls(file, None)

    def at(self, steps: Iterable[Step]) -> Place:
        """Return the lines of a value under `config:`, from key to end. A missing value has those of its parent."""
        place = Place(file=self.file, line=1, end_line=1)
        for key, node in self._entries(steps):
            line = key.start_mark.line + 1
            place = Place(file=self.file, line=line, end_line=max(line, _last_line(node)))
        return place

    def has(self, *steps: Step) -> bool:
        return len(self._entries(steps)) == 1 + len(steps)

    def node(self, *steps: Step) -> yaml.Node | None:
        """Return the value under `config:`, or None if it is missing."""
        return self._entries(steps)[-1][1] if self.has(*steps) else None

    def _entries(self, steps: Iterable[Step]) -> list[tuple[yaml.Node, yaml.Node]]:
        """Return key and value of `config` and of each step, as far as they exist."""
        found, node = [], self.root
        for step in ("config", *steps):
            each = entry(node, step)
            if each is None:
                break
            found.append(each)
            node = each[1]
        return found

    def of_pool(self, name: str, before: StackLines | None = None) -> Place:
        """Return the lines of the one key of a pool that is new or differs.

        With several such keys or none, return the whole pool. If the pool is gone, return the line of all pools.
        """
        whole = self.at((POOLS, name))
        if not self.has(POOLS, name):
            return whole.model_copy(update={"end_line": whole.line})
        if before is None or not before.has(POOLS, name):
            return whole
        changed = list(_changed(before.node(POOLS, name), self.node(POOLS, name)))
        return self.at((POOLS, name, *changed[0])) if len(changed) == 1 else whole


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
    return of_traceback(text, root) if root else None


@dataclass(frozen=True)
class SourceFiles:
    """The files that locate a finding: the stack files of both revisions, and the files of the program."""

    name: str
    """The path of the stack file, relative to the root of the repository."""
    root: Path
    """The root of the head's files. Only their names are used, and if they differ from the base's."""
    project: str
    """The folder of Pulumi.yaml, relative to the root."""
    before: Path | None
    """The stack file of the base, or None. Both stack files are copies that the head's code cannot change."""
    after: Path | None
    """The stack file of the head, or None."""
    base: Path
    """The root of the base's files."""

    @cached_property
    def lines(self) -> StackLines | None:
        """The lines of the head's stack file."""
        return StackLines.read(self.after, self.name) if self.after else None

    @cached_property
    def old_lines(self) -> StackLines | None:
        """The lines of the base's stack file."""
        return StackLines.read(self.before, self.name) if self.before else None

    @cached_property
    def has_same_file(self) -> bool:
        """True if the stack file is the same in base and head."""
        roots = [each.root if each else None for each in (self.lines, self.old_lines)]
        return all(roots) and len({_text(each) for each in roots if each}) == 1


def of_pool_or_source(finding: Finding, change: Change | None, compared: SourceFiles) -> Place | None:
    """Return the lines of a resource's pool in the stack file of base or head, else its place in the program."""
    return _of_pool(finding, compared) or next(iter(_calls(change, compared)), None)


def of_change(finding: Finding, change: Change | None, compared: SourceFiles) -> Place | None:
    """Return the place of the change that affects a resource.

    The place is in the program if the stack file is the same in base and head: in the file that differs, if one does.
    """
    calls = _calls(change, compared)
    changed = [call for call in calls if not is_same(call.file, compared.root, compared.base)]
    in_source = next(iter((*changed, *calls)), None)
    if in_pool := _of_pool(finding, compared):
        return in_source if in_source and compared.has_same_file else in_pool
    return in_source


def _of_pool(finding: Finding, compared: SourceFiles) -> Place | None:
    pool = finding.component
    known = bool(pool) and any(side.has(POOLS, pool) for side in (compared.lines, compared.old_lines) if side)
    return compared.lines.of_pool(pool, compared.old_lines) if compared.lines and known else None


def _calls(change: Change | None, compared: SourceFiles) -> list[Place]:
    """Return the calls of the program that create the resource, the innermost first."""
    if change is None or change.after is None:
        return []
    return list(of_source(change.after.positions, compared.root, compared.project))


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
        children = pulumi_files.children(node)
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


# The engine's form. Some languages add a column: project:///infra/pools.py#55 or …#55,12.
_POSITION = re.compile(r"project:///(?P<file>[^#]+)#(?P<line>[0-9]{1,9})(?:,[0-9]+)?")
# Python's form (docs.python.org/3/library/traceback.html), the innermost call last.
_CALL = re.compile(r'^[ \t]*File "(?P<file>[^"\n]+)", line (?P<line>[0-9]{1,9})\b', re.MULTILINE)
# Installed packages in a checkout are not part of the review.
_INSTALLED = ("site-packages", "dist-packages", "node_modules")


def of_source(positions: Iterable[str], root: Path, project: str = "") -> Iterator[Place]:
    """Return the calls of a program in files of the repository, the innermost first.

    `project` is the folder with Pulumi.yaml, relative to the root of the repository: positions are relative to it.
    """
    for position in positions:
        if found := _POSITION.fullmatch(position):
            yield from _within(PurePosixPath(project, found["file"]), found["line"], root)


def of_traceback(text: str, root: Path) -> Place | None:
    """Return the last call of Python tracebacks in a file of the repository, or None."""
    calls = [
        place for found in _CALL.finditer(text) for place in _within(PurePosixPath(found["file"]), found["line"], root)
    ]
    return calls[-1] if calls else None


def is_same(file: str, root: Path, base: Path) -> bool:
    """Return True if a file has the same bytes below both roots. False if it is not a plain file in one of them."""
    try:
        with files.open_regular(root / file) as one, files.open_regular(base / file) as other:
            size = os.fstat(other.fileno()).st_size
            return os.fstat(one.fileno()).st_size == size and one.read(size) == other.read(size)
    except OSError:
        return False


def _within(file: PurePosixPath, line: str, root: Path) -> Iterator[Place]:
    hidden = any(part in _INSTALLED or part.startswith(".") for part in file.parts)
    with contextlib.suppress(OSError, ValueError):  # a path that is too long, or has a NUL
        if not hidden and not file.is_absolute() and (root / file).is_file() and not (root / file).is_symlink():
            yield Place(file=str(file), line=max(1, int(line)), end_line=max(1, int(line)))
