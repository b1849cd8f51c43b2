"""Draws the changed resources of a stack as a Mermaid graph, which GitHub renders inside Markdown.

Names and types come from the program, so they are untrusted. A label has no sign that ends it, or that begins HTML, a
link, a directive, an icon, a formula or Markdown. The lists of the report have the exact names.
"""

from __future__ import annotations

import string
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from gpu_common.visible import visible

from ..model import Counts, Finding, Operation, Resource, Severity, Stack
from ..phrases import OPERATION_TEXTS, counted, of_severity, worst_first

# A larger graph, or one without arrows, is collapsed: it shows little more than the lists of the report.
_MAX_UNFOLDED = 8
# A reader follows this many boxes. GitHub refuses a graph of more than 50,000 characters or 500 edges
# (mermaid.js.org/config/schema-docs/config.html: maxTextSize, maxEdges).
_MAX_NODES = 40
_MAX_EDGES = 120
_MAX_CHARACTERS = 20_000
_LABEL_CHARACTERS = 48
_RULES = 3
# Dark text on a light colour is readable on the light and on the dark background of GitHub.
_STYLES = {
    Operation.REPLACE: "fill:#ffe2cc,stroke:#bc4c00,color:#3b1c00",
    Operation.DELETE: "fill:#ffe0dd,stroke:#cf222e,color:#4c0910",
    Operation.CREATE: "fill:#d7f5de,stroke:#1a7f37,color:#06290f",
    Operation.UPDATE: "fill:#fff5c2,stroke:#9a6700,color:#332200",
    Operation.SAME: "fill:#eaeef2,stroke:#59636e,color:#1f2328",
}
_LITERAL = frozenset(f"{string.ascii_letters}{string.digits} /-")
# Mermaid reads `#46;` as the character 46. It then still makes icons of `fa:fa-x`, and formulas of `$$x$$`.
_AS_NUMBER = "._,()…"


class _Node(NamedTuple):
    lines: tuple[str, ...]
    operation: Operation
    component: str = ""
    """The component around the node."""
    rules: tuple[str, ...] = ()
    """The danger rules that apply to the node."""


def graph(stack: Stack) -> tuple[list[str], bool]:
    """Return the lines of a graph, and if a reader should see it first. A node is a changed resource, or a component.

    An arrow leads from a resource to those that depend on it. There is no graph for fewer than two nodes.
    """
    changed = worst_first(stack.changed)
    parents = {each.parent for each in changed}
    # A component that contains other changed resources is drawn as the box around them.
    resources = [each for each in changed if each.urn not in parents]
    for drawn in (_resources, _components):
        key_of, nodes = drawn(resources, stack)
        if len(nodes) > _MAX_NODES:
            continue
        edges = _without_shortcuts(_edges(resources, key_of))
        lines = _lines(nodes, edges)
        if len(edges) <= _MAX_EDGES and sum(map(len, lines)) <= _MAX_CHARACTERS:
            return lines if len(nodes) > 1 else [], bool(edges) and len(nodes) <= _MAX_UNFOLDED
    return [], False


def _resources(resources: Sequence[Resource], stack: Stack) -> tuple[dict[str, str], dict[str, _Node]]:
    """Return the key of each resource's node, and the nodes. Similar resources without arrows share a node."""
    rules = _rules(stack, lambda danger: danger.urn)
    linked = {urn for edge in _edges(resources, {each.urn: each.urn for each in resources}) for urn in edge}
    members: dict[tuple[str, ...], list[Resource]] = defaultdict(list)
    for each in resources:
        alone = each.urn in linked or each.urn in rules
        members[(each.urn,) if alone else (each.component, each.type, each.operation)].append(each)
    nodes = {}
    for first, *others in members.values():
        operation = "moved" if first.operation == Operation.SAME else OPERATION_TEXTS[first.operation]
        more = [f"and {len(others)} more"] if others else []
        lines = (first.name, *more, first.type.rpartition(":")[2], operation)
        nodes[first.urn] = _Node(lines, first.operation, first.component, rules.get(first.urn, ()))
    return {each.urn: found[0].urn for found in members.values() for each in found}, nodes


def _components(resources: Sequence[Resource], stack: Stack) -> tuple[dict[str, str], dict[str, _Node]]:
    """Return the key of each resource's node, and a node for each component."""
    members: dict[str, list[Resource]] = defaultdict(list)
    for each in resources:
        members[each.component].append(each)
    rules = _rules(stack, lambda danger: danger.component)
    nodes = {}
    for name, found in members.items():
        counts = counted(Counts.of(found).model_copy(update={"same": 0}))
        nodes[name] = _Node((name or "in no component", counts), found[0].operation, rules=rules.get(name, ()))
    return {each.urn: each.component for each in resources}, nodes


def _rules(stack: Stack, key: Callable[[Finding], str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for danger in of_severity(stack, Severity.DANGER):
        known = found.get(key(danger), ())
        found[key(danger)] = known if danger.rule in known else (*known, danger.rule)
    return found


def _edges(resources: Iterable[Resource], keys: Mapping[str, str]) -> list[tuple[str, str]]:
    found = ((keys[urn], keys[each.urn]) for each in resources for urn in each.depends_on if urn in keys)
    return list(dict.fromkeys((cause, effect) for cause, effect in found if cause != effect))


def _without_shortcuts(edges: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Leave out an edge from a to c if a leads to b and b to c: Pulumi lists indirect dependencies too."""
    after: dict[str, set[str]] = defaultdict(set)
    for cause, effect in edges:
        after[cause].add(effect)
    return [
        (cause, effect)
        for cause, effect in edges
        if not any(effect in after.get(other, ()) and cause not in after.get(other, ()) for other in after[cause])
    ]


def _lines(nodes: Mapping[str, _Node], edges: Iterable[tuple[str, str]]) -> list[str]:
    ids = {key: f"n{number}" for number, key in enumerate(nodes)}
    boxes: dict[str, list[str]] = defaultdict(list)
    for key, node in nodes.items():
        text = "<br/>".join([*map(_label, node.lines), *(f"⚠ {_label(rule)}" for rule in node.rules[:_RULES])])
        boxes[node.component].append(f'{ids[key]}["{text}"]:::{node.operation}')
    lines = ["flowchart LR", *boxes.pop("", ())]
    for number, (name, members) in enumerate(boxes.items()):
        lines += [f'subgraph b{number}["{_label(name)}"]', "direction LR", *members, "end"]
    lines += [f"{ids[cause]} --> {ids[effect]}" for cause, effect in edges]
    drawn = {node.operation for node in nodes.values()}
    lines += [f"classDef {operation} {style}" for operation, style in _STYLES.items() if operation in drawn]
    if dangers := [ids[key] for key, node in nodes.items() if node.rules]:
        lines += ["classDef danger stroke:#cf222e,stroke-width:4px", f"class {','.join(dangers)} danger"]
    if boxes:
        listed = ",".join(f"b{number}" for number in range(len(boxes)))
        lines += ["classDef box fill:none,stroke:#818b98", f"class {listed} box"]
    return lines


def _label(text: str) -> str:
    """Return a text with letters, digits and a few signs. Mermaid would act on any other sign, even as a number."""
    label = "".join(map(_sign, visible(text, _LABEL_CHARACTERS))) or "(empty)"
    return f"#45;{label[1:]}" if label.startswith("-") else label  # a list of Markdown


def _sign(character: str) -> str:
    if character in _LITERAL:
        return character
    return f"#{ord(character)};" if character.isalnum() or character in _AS_NUMBER else "�"
