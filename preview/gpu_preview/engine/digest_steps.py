"""Converts a step of the engine's digest into a resource of a report.

The digest is the output of `pulumi preview --json`. A step is one operation of the engine on one resource.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..diff import differences
from ..diff.placeholders import SECRET
from ..diff.value_pairs import revealed
from ..diff.values import WAS_SECRET
from ..json_text import DEEPEST
from ..model import Operation, PropertyChange, Resource
from .states import STACK

# Steps of one replacement. The digest has only `replace`, the events have all three.
OPERATIONS = {
    "create": Operation.CREATE,
    "import": Operation.CREATE,
    "update": Operation.UPDATE,
    "replace": Operation.REPLACE,
    "create-replacement": Operation.REPLACE,
    "import-replacement": Operation.REPLACE,
    "delete": Operation.DELETE,
    "same": Operation.SAME,
    "read": Operation.SAME,
    "refresh": Operation.SAME,
}
# Google types whose labels cannot be changed (ForceNew of `labels`, terraform-provider-google at e03b7622).
_FIXED_LABELS = (
    "gcp:bigquery/job:Job",
    "gcp:certificatemanager/certificateIssuanceConfig:CertificateIssuanceConfig",
    "gcp:dataproc/workflowTemplate:WorkflowTemplate",
    "gcp:datastream/privateConnection:PrivateConnection",
    "gcp:monitoring/metricDescriptor:MetricDescriptor",
)


def state(step: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the state after the step, or before a step that deletes the resource."""
    found = step.get("newState") or step.get("oldState")
    return found if isinstance(found, Mapping) else {}


def type_of(urn: str) -> str:
    """Return the type in a URN: `urn:pulumi:<stack>::<project>::<types of its parents>$<type>::<name>`."""
    parts = urn.split("::", 3)
    return parts[2].rpartition("$")[2] if len(parts) == 4 else ""


def name_of(urn: str) -> str:
    """Return the name in a URN, which can have any characters."""
    parts = urn.split("::", 3)
    return parts[3] if len(parts) == 4 else urn


def resource(
    step: Mapping[str, Any], urn: str, parents: Mapping[str, str], unclear: Collection[str], most: int
) -> Resource:
    """Return the resource of a step. TooMuchError if more properties differ than `most`.

    Args:
        step: The step.
        urn: The URN of the resource in head.
        parents: The parent of every URN.
        unclear: The types for which the sandbox does not know which properties force a replacement.
        most: The number of differing properties that a report can hold.
    """
    old, new = step.get("oldState") or {}, step.get("newState") or {}
    operation = _operation(step, old, new)
    current = state(step)
    old_urn = str(old.get("urn") or urn)
    if operation is Operation.CREATE:
        properties = differences.created(new.get("inputs") or {}, most)
    elif operation in (Operation.UPDATE, Operation.REPLACE):
        found = differences.reported(old, new, differences.engine_diffs(step), most)
        properties = _with_uncovered(found, old, new, most)
    else:
        properties = ()
    parent = str(current.get("parent") or "")
    may_replace = step["op"] == "update" and type_of(urn) in unclear and not _never_replaces(type_of(urn), properties)
    return Resource(
        urn=urn,
        type=type_of(urn),
        name=name_of(urn),
        operation=operation,
        parent="" if type_of(parent) == STACK else parent,
        component=_component(urn, parents),
        moved_from=old_urn if old_urn != urn else "",
        properties=properties,
        replaced_for=tuple(sorted(step.get("replaceReasons") or ())),  # The engine's order is not defined.
        depends_on=tuple(sorted(str(one) for one in current.get("dependencies") or ())),
        protected=bool(current.get("protect")),
        retained=old.get("retainOnDelete") is True,
        imported=str(step["op"]).startswith("import"),
        may_replace=may_replace,
    )


def _operation(step: Mapping[str, Any], old: Mapping[str, Any], new: Mapping[str, Any]) -> Operation:
    """Return the engine's operation, except in two cases.

    - A secret becomes plain with the same value: the engine reports `same`, because nothing in the cloud changes. This
      is an update here, because the state then has the value as plain text.
    - A resource that the stack only reads (`external`) is replaced: the engine deletes nothing, so this is a creation.
    """
    if step["op"] == "same" and any(revealed(old.get("inputs") or {}, new.get("inputs") or {})):
        return Operation.UPDATE
    operation = OPERATIONS[str(step["op"])]
    return Operation.CREATE if operation is Operation.REPLACE and old.get("external") is True else operation


def _with_uncovered(
    reported: tuple[PropertyChange, ...], old: Mapping[str, Any], new: Mapping[str, Any], most: int
) -> tuple[PropertyChange, ...]:
    """Return the engine's differences, and secrets that become plain with the same value, which it does not report."""
    reported_paths = {each.path for each in reported}
    uncovered = (
        PropertyChange(path=pair.text, kind="update", before=SECRET, after=WAS_SECRET)
        for pair in revealed(old.get("inputs") or {}, new.get("inputs") or {})
        if pair.text not in reported_paths
    )
    added = differences.at_most(most - len(reported), uncovered)
    return tuple(sorted([*reported, *added], key=lambda each: each.path))


def _never_replaces(type_: str, properties: Sequence[PropertyChange]) -> bool:
    """Return True if only tags or labels differ, or values that are no longer secret: these force no replacement.

    Tags of any AWS resource can be added, changed and removed at any time
    (docs.aws.amazon.com/tag-editor/latest/userguide/tagging.html). So can labels of Google resources, except of
    `_FIXED_LABELS`.
    """
    labels = "tags(All)?" if type_.startswith("aws:") else "(user|effective|pulumi)?[lL]abels"
    can_relabel = type_.startswith(("aws:", "gcp:")) and type_ not in _FIXED_LABELS
    return bool(properties) and all(
        each.after == WAS_SECRET or (can_relabel and re.match(rf"{labels}\b", each.path)) for each in properties
    )


def _component(urn: str, parents: Mapping[str, str]) -> str:
    """Return the name of the topmost parent below the stack, or the own name of a topmost resource with children."""
    top, visited = urn, {urn}
    while (
        (parent := parents.get(top, ""))
        and type_of(parent) != STACK
        and parent not in visited
        and len(visited) < DEEPEST
    ):
        top = parent
        visited.add(parent)
    has_children = top != urn or any(parent == urn for parent in parents.values())
    return name_of(top) if has_children else ""
