"""Converts a step of the engine's digest into a resource of a report."""

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
_LABELS_STAY = (
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
    """The resource. `parents` has the parent of every URN, and `unclear` are the types of which nobody knows what
    replaces one.

    TooMuchError where more than `most` properties differ.
    """
    old, new = step.get("oldState") or {}, step.get("newState") or {}
    operation = _operation(step, old, new)
    current = state(step)
    was = str(old.get("urn") or urn)
    if operation is Operation.CREATE:
        properties = differences.created(new.get("inputs") or {}, most)
    elif operation in (Operation.UPDATE, Operation.REPLACE):
        found = differences.reported(old, new, differences.hints(step), most)
        properties = _with_uncovered(found, old, new, most)
    else:
        properties = ()
    parent = str(current.get("parent") or "")
    return Resource(
        urn=urn,
        type=type_of(urn),
        name=name_of(urn),
        operation=operation,
        parent="" if type_of(parent) == STACK else parent,
        component=_component(urn, parents),
        moved_from=was if was != urn else "",
        properties=properties,
        replaced_for=tuple(sorted(step.get("replaceReasons") or ())),  # The engine's order is not defined.
        depends_on=tuple(sorted(str(one) for one in current.get("dependencies") or ())),
        protected=bool(current.get("protect")),
        retained=old.get("retainOnDelete") is True,
        imported=str(step["op"]).startswith("import"),
        may_replace=step["op"] == "update" and type_of(urn) in unclear and not _harmless(type_of(urn), properties),
    )


def _operation(step: Mapping[str, Any], old: Mapping[str, Any], new: Mapping[str, Any]) -> Operation:
    """The engine's, but for a secret that is plain from now on with the same value, and for what was only looked up.

    The engine calls the first the same, as it changes nothing in the cloud; the value then stands in the state as it
    is. And what it replaces of somebody else's it forgets, and deletes nothing.
    """
    if step["op"] == "same" and any(revealed(old.get("inputs") or {}, new.get("inputs") or {})):
        return Operation.UPDATE
    operation = OPERATIONS[str(step["op"])]
    return Operation.CREATE if operation is Operation.REPLACE and old.get("external") is True else operation


def _with_uncovered(
    found: tuple[PropertyChange, ...], old: Mapping[str, Any], new: Mapping[str, Any], most: int
) -> tuple[PropertyChange, ...]:
    """Return the engine's differences, and secrets that become plain with the same value, which it does not report."""
    known = {each.path for each in found}
    more = (
        PropertyChange(path=pair.text, kind="update", before=SECRET, after=WAS_SECRET)
        for pair in revealed(old.get("inputs") or {}, new.get("inputs") or {})
        if pair.text not in known
    )
    return tuple(sorted([*found, *differences.at_most(most - len(found), more)], key=lambda each: each.path))


def _harmless(type_: str, properties: Sequence[PropertyChange]) -> bool:
    """Whether no property differs that could make another resource: tags, labels, and what is only secret no longer.

    Any resource of AWS takes tags as it is (docs.aws.amazon.com/tag-editor/latest/userguide/tagging.html: they are
    added, changed and removed at any time), and nearly every one of Google labels.
    """
    marks = "tags(All)?" if type_.startswith("aws:") else "(user|effective|pulumi)?[lL]abels"
    takes_marks = type_.startswith(("aws:", "gcp:")) and type_ not in _LABELS_STAY
    return bool(properties) and all(
        each.after == WAS_SECRET or (takes_marks and re.match(rf"{marks}\b", each.path)) for each in properties
    )


def _component(urn: str, parents: Mapping[str, str]) -> str:
    """Return the name of the topmost parent below the stack, or the own name of a topmost resource with children."""
    top, seen = urn, {urn}
    while (above := parents.get(top, "")) and type_of(above) != STACK and above not in seen and len(seen) < DEEPEST:
        top = above
        seen.add(above)
    has_children = top != urn or any(above == urn for above in parents.values())
    return name_of(top) if has_children else ""
