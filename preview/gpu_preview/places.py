"""Where something stands in the head's files: the lines of a pool in its stack file, or where the program makes it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import yaml
from gpu_ci.stack.pools import POOLS

from . import stack_nodes
from .paths import Step, parts
from .report import Finding, Operation, Place
from .states import Change

# The engine's form, with a column where the language tells one: project:///infra/pools.py#55 or …#55,12.
_POSITION = re.compile(r"project:///(?P<file>[^#]+)#(?P<line>[0-9]{1,9})(?:,[0-9]+)?")
# Such as gpu-ci:pools.t4.machineType.
_KEY = re.compile(r"\b[A-Za-z][\w-]*:[A-Za-z][\w.\[\]-]*")
# What is installed into a checkout is nobody's to review.
_INSTALLED = ("site-packages", "dist-packages", "node_modules")


@dataclass(frozen=True)
class StackLines:
    """The lines of one stack file."""

    file: str
    """Relative to the root of the repository."""
    root: yaml.Node | None

    @classmethod
    def read(cls, path: Path, file: str) -> StackLines:
        """The lines of a file; of one that cannot be read there are none, and all is at its first line."""
        try:
            return cls(file, stack_nodes.fit(path))
        except stack_nodes.UnfitError:
            return cls(file, None)

    def at(self, steps: Iterable[Step]) -> Place:
        """Where a value under `config:` stands, from its key to its end; of one that is not there, what it was in."""
        place, node = Place(file=self.file, line=1, end_line=1), self.root
        for step in ("config", *steps):
            found = _entry(node, step)
            if found is None:
                break
            key, node = found
            line = key.start_mark.line + 1
            place = Place(file=self.file, line=line, end_line=max(line, _last_line(node)))
        return place

    def has(self, *steps: Step) -> bool:
        node = self.root
        for step in ("config", *steps):
            found = _entry(node, step)
            if found is None:
                return False
            node = found[1]
        return True

    def of_pool(self, name: str, before: StackLines | None = None) -> Place:
        """The one key of a pool that is new or differs, the whole pool where there are more or none, and the line of
        all pools where this one is gone."""
        whole = self.at((POOLS, name))
        if not self.has(POOLS, name):
            return self._first(whole)
        if before is None or not before.has(POOLS, name):
            return whole
        changed = list(_changed(before._node(POOLS, name), self._node(POOLS, name)))
        return self.at((POOLS, name, *changed[0])) if len(changed) == 1 else whole

    def _node(self, *steps: Step) -> yaml.Node | None:
        node = self.root
        for step in ("config", *steps):
            found = _entry(node, step)
            node = found[1] if found else None
        return node

    @staticmethod
    def _first(place: Place) -> Place:
        return place.model_copy(update={"end_line": place.line})


def of_error(text: str, path: Path, file: str) -> Place | None:
    """The first place in a stack file that an error names: a line of it, or a key that it has; None for none.

    Of a key that is not there, such as one that is missing, it is the line of what it would be in.
    """
    if found := re.search(rf"{re.escape(path.name)}: line (\d{{1,7}})\b", text):
        return Place(file=file, line=max(1, int(found[1])), end_line=max(1, int(found[1])))
    lines = StackLines.read(path, file)
    for match in _KEY.finditer(text):
        steps = parts(match[0].rstrip("."))
        if lines.has(*steps[:1]):
            place = lines.at(steps)
            return place if lines.has(*steps) else place.model_copy(update={"end_line": place.line})
    return None


def of_source(positions: Iterable[str], root: Path, project: str = "") -> Place | None:
    """The innermost call of a program that stands in a file of the repository; None where none does.

    `project` is the folder with Pulumi.yaml, relative to the root of the repository: positions are relative to it.
    """
    for position in positions:
        found = _POSITION.fullmatch(position)
        if found is None:
            continue
        file = PurePosixPath(project, found["file"])
        hidden = any(part in _INSTALLED or part.startswith(".") for part in file.parts)
        if hidden or file.is_absolute() or "\0" in str(file) or not _is_file(root / file):
            continue
        return Place(file=str(file), line=max(1, int(found["line"])), end_line=max(1, int(found["line"])))
    return None


def placed(
    finding: Finding,
    change: Change | None,
    root: Path,
    project: str = "",
    lines: StackLines | None = None,
    before: StackLines | None = None,
) -> Finding:
    """The finding with its place: of a pool of the stack file (of either side) there, else where the program makes the
    resource. One that has a place, or for which none is found, stays as it is."""
    if finding.place is not None:
        return finding
    pool = finding.component
    known = bool(pool) and any(side.has(POOLS, pool) for side in (lines, before) if side)
    if lines is not None and known:
        return finding.model_copy(update={"place": lines.of_pool(pool, before)})
    if change is None or change.after is None or change.resource.operation == Operation.DELETE:
        return finding
    return finding.model_copy(update={"place": of_source(change.after.positions, root, project)})


def _is_file(path: Path) -> bool:
    try:
        return path.is_file() and not path.is_symlink()
    except OSError:
        return False


def _entry(node: yaml.Node | None, step: Step) -> tuple[yaml.Node, yaml.Node] | None:
    """Key and value of a map, or a part of a list twice."""
    if isinstance(node, yaml.MappingNode):
        return next(((key, value) for key, value in node.value if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step]
    return None


def _last_line(value: yaml.Node) -> int:
    """YAML ends a block where the next begins; this is the last line with something of it, though a block of text
    keeps the blank lines below it. Of an alias it is the line of what it stands for, which is always further up."""
    last, left, seen = 0, [value], set()
    while left:
        node = left.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        inside = stack_nodes.children(node)
        left += inside
        if not inside or getattr(node, "flow_style", False):
            last = max(last, node.end_mark.line + (1 if node.end_mark.column else 0))
    return last


def _changed(before: yaml.Node | None, after: yaml.Node | None) -> Iterator[tuple[Step, ...]]:
    """The keys of a map that are new or differ, each as deep as only one thing in it differs; nothing but the map
    itself for one that is gone, which has no line."""
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
