"""Reads what `pulumi preview --json` says: the engine's steps, as resources of a report.

The form is that of pulumi/pulumi v3.259.0, pkg/backend/display/json.go and sdk/go/common/display/json.go; it is made by
the engine from its own events. With `--show-sames` the unchanged are in it too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from . import differences, digest_form, json_text
from .json_text import DEEPEST, as_list, as_map
from .placeholders import SECRET
from .report import Counts, Operation, PropertyChange, Resource
from .states import STACK
from .values import WAS_SECRET
from .walk import uncovered

_PROVIDERS = "pulumi:providers:"
# Steps of one replacement; the engine's digest tells `replace` alone, its events all three.
_UNTOLD = re.compile(r"(\S+): only its shape is checked\b")
"""What the sandbox says of a type of which it knows no more: then an update may be a replacement."""
_OPERATIONS = {
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
# What the language host adds to the words of a program that failed.
_ENDED = "an unhandled error occurred: the program ended with exit code"
# Second halves of what another step has told, and looking up what exists, or doing so no longer.
_LEFT_OUT = ("delete-replaced", "discard", "discard-replaced", "remove-pending-replace", "read-replacement")
# Where one URN has two steps, what is worse for it counts.
_WORST_LAST = (Operation.SAME, Operation.CREATE, Operation.UPDATE, Operation.REPLACE, Operation.DELETE)
# Types of Google's whose labels cannot be changed (ForceNew of `labels`, terraform-provider-google at e03b7622).
_LABELS_STAY = (
    "gcp:bigquery/job:Job",
    "gcp:certificatemanager/certificateIssuanceConfig:CertificateIssuanceConfig",
    "gcp:dataproc/workflowTemplate:WorkflowTemplate",
    "gcp:datastream/privateConnection:PrivateConnection",
    "gcp:monitoring/metricDescriptor:MetricDescriptor",
)


# Of all resources together, as each takes 1 KiB of memory. An update of 100 pools has 900.
_MOST_CHANGES = 100_000


class DigestError(ValueError):
    """What was read is no such document; the text says why."""


class DigestTooLargeError(DigestError):
    """It would take more memory than anybody's, and is not read."""


@dataclass(frozen=True)
class Diagnostic:
    """A word of the engine or of the program."""

    severity: str
    message: str
    urn: str = ""


@dataclass(frozen=True)
class Digest:
    """One preview of one stack."""

    resources: tuple[Resource, ...] = ()
    before: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The engine's states of the resources that are there, by their URN after the change."""
    after: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()
    unlisted: int = 0
    """How many stay as they are and are not among the resources, because it was made without `--show-sames`. Providers
    that the engine makes by itself are counted, as it counts them."""

    @property
    def errors(self) -> list[str]:
        """What the preview failed with, each once; that the program ended only where nothing says why."""
        found = dict.fromkeys(each.message.strip() for each in self.diagnostics if each.severity == "error")
        telling = [text for text in found if _ENDED not in text]
        return telling or list(found)

    @property
    def warnings(self) -> list[Diagnostic]:
        """What the engine, the program and the providers warn of, each once."""
        found = {(each.message.strip(), each.urn): each for each in self.diagnostics if each.severity == "warning"}
        return list(found.values())

    @property
    def counts(self) -> Counts:
        """How many of each; providers, which are no resources of a cloud, are left out as the engine leaves them."""
        listed = Counts.of(self.resources)
        return listed.model_copy(update={"same": listed.same + self.unlisted})


def read(file: Path) -> Digest:
    """The digest in a file. DigestError for anything else, such as the words of a command that failed before it.

    OSError where it cannot be read.
    """
    return _digest(lambda: json_text.read_file(file))


def parse(text: str) -> Digest:
    """The digest. DigestError for anything else."""
    return _digest(lambda: json_text.read(text))


def _digest(source: Callable[[], Any]) -> Digest:
    try:
        document = source()
        if much := digest_form.too_many(document):
            raise json_text.TooMuchError(much)
        told = digest_form.Document.model_validate(document)
        return _of(document, told)
    except json_text.TooMuchError as error:
        raise DigestTooLargeError(f"is larger than the preview of anything: {error}") from None
    except ValidationError as error:
        raise DigestError(
            "\n".join(["is not what `pulumi preview --json` prints", *digest_form.problems(error)])
        ) from None
    except DigestError:
        raise
    except ValueError:
        raise DigestError("is not what `pulumi preview --json` prints") from None


def _of(document: Mapping[str, Any], told: digest_form.Document) -> Digest:
    if not told.says_something:
        raise DigestError("is not what `pulumi preview --json` prints\n  expected: `steps`, or `changeSummary`")
    if told.counts_what_it_lacks:
        raise DigestError("counts changes in `changeSummary`, and has no `steps`: a part of it is missing")
    steps: list[dict[str, Any]] = document.get("steps") or []
    diagnostics = tuple(Diagnostic(one.severity, one.message, one.urn) for one in told.diagnostics or ())
    states = _by_urn(steps)
    parents = {urn: str(_state(step).get("parent") or "") for urn, step in states.items()}
    unclear = {found[1] for one in diagnostics if (found := _UNTOLD.match(one.message))}
    resources = []
    left = _MOST_CHANGES
    for urn, step in sorted(states.items()):
        if not _is_left_out(urn, step):
            resources.append(_resource(step, urn, parents, unclear, left))
            left -= len(resources[-1].properties)
    return Digest(
        tuple(resources),
        {urn: step["oldState"] for urn, step in states.items() if isinstance(step.get("oldState"), dict)},
        {urn: step["newState"] for urn, step in states.items() if isinstance(step.get("newState"), dict)},
        diagnostics,
        _unlisted(states, (told.change_summary or {}).get("same", 0)),
    )


def _by_urn(steps: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The step that tells of each resource. DigestError for an operation that nobody here knows."""
    found: dict[str, dict[str, Any]] = {}
    for step in steps:
        if (done := step["op"]) in _LEFT_OUT:
            continue
        if done not in _OPERATIONS:
            raise DigestError(f"has an operation that is not known here\n  got: {ascii(done)[:100]}")
        other = found.get(step["urn"])
        if other is None or _badness(other) <= _badness(step):
            found[step["urn"]] = step
    return found


def _badness(step: Mapping[str, Any]) -> int:
    return _WORST_LAST.index(_OPERATIONS[step["op"]])


def _unlisted(states: Mapping[str, Mapping[str, Any]], same: int) -> int:
    """How many of those that the engine counts as unchanged it did not list; the stack itself is always one of all."""
    if any(step["op"] == "same" for step in states.values()):
        return 0
    return max(0, same - (not any(type_of(urn) == STACK for urn in states)))


def of_state(text: str) -> tuple[Resource, ...]:
    """The resources in what `pulumi stack export` prints, unchanged; none where it prints nothing of the sort."""
    try:
        states = as_list(as_map(as_map(json_text.read(text)).get("deployment")).get("resources"))
        steps = [{"op": "same", "urn": one.get("urn"), "newState": one} for one in states if isinstance(one, dict)]
        return parse(json.dumps({"steps": steps})).resources
    except ValueError:
        return ()


def _state(step: Mapping[str, Any]) -> Mapping[str, Any]:
    found = step.get("newState") or step.get("oldState")
    return found if isinstance(found, Mapping) else {}


def _is_left_out(urn: str, step: Mapping[str, Any]) -> bool:
    kind = type_of(urn)
    default = kind.startswith(_PROVIDERS) and name_of(urn).startswith("default")
    return kind == STACK or default or str(step.get("op")) not in _OPERATIONS


def type_of(urn: str) -> str:
    """The type in a URN: `urn:pulumi:<stack>::<project>::<types of its parents>$<type>::<name>`."""
    parts = urn.split("::", 3)
    return parts[2].rpartition("$")[2] if len(parts) == 4 else ""


def name_of(urn: str) -> str:
    """The name in a URN, which may hold any sign."""
    parts = urn.split("::", 3)
    return parts[3] if len(parts) == 4 else urn


def _resource(
    step: Mapping[str, Any], urn: str, parents: Mapping[str, str], unclear: Collection[str], most: int
) -> Resource:
    old, new = step.get("oldState") or {}, step.get("newState") or {}
    operation = _operation(step, old, new)
    state = _state(step)
    was = str(old.get("urn") or urn)
    if operation is Operation.CREATE:
        properties = differences.created(new.get("inputs") or {}, most)
    elif operation in (Operation.UPDATE, Operation.REPLACE):
        found = differences.told(old, new, differences.hints(step), most)
        properties = _with_uncovered(found, old, new, most)
    else:
        properties = ()
    parent = str(state.get("parent") or "")
    return Resource(
        urn=urn,
        type=type_of(urn),
        name=name_of(urn),
        operation=operation,
        parent="" if type_of(parent) == STACK else parent,
        component=_component(urn, parents),
        moved_from=was if was != urn else "",
        properties=properties,
        replaced_for=tuple(sorted(step.get("replaceReasons") or ())),  # the engine has them in any order
        depends_on=tuple(sorted(str(one) for one in state.get("dependencies") or ())),
        protected=bool(state.get("protect")),
        retained=old.get("retainOnDelete") is True,
        imported=str(step["op"]).startswith("import"),
        may_replace=step["op"] == "update" and type_of(urn) in unclear and not _harmless(type_of(urn), properties),
    )


def _operation(step: Mapping[str, Any], old: Mapping[str, Any], new: Mapping[str, Any]) -> Operation:
    """The engine's, but for a secret that is plain from now on with the same value, and for what was only looked up.

    The engine calls the first the same, as it changes nothing in the cloud; the value then stands in the state as it
    is. And what it replaces of somebody else's it forgets, and deletes nothing.
    """
    if step["op"] == "same" and any(uncovered(old.get("inputs") or {}, new.get("inputs") or {})):
        return Operation.UPDATE
    operation = _OPERATIONS[str(step["op"])]
    return Operation.CREATE if operation is Operation.REPLACE and old.get("external") is True else operation


def _with_uncovered(
    found: tuple[PropertyChange, ...], old: Mapping[str, Any], new: Mapping[str, Any], most: int
) -> tuple[PropertyChange, ...]:
    """What the engine tells, and secrets that are plain with the same value, which are no difference to it."""
    known = {each.path for each in found}
    more = (
        PropertyChange(path=pair.text, kind="update", before=SECRET, after=WAS_SECRET)
        for pair in uncovered(old.get("inputs") or {}, new.get("inputs") or {})
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
    """The name of the topmost resource above it, below the stack; its own where it is that and has children."""
    top, seen = urn, {urn}
    while (above := parents.get(top, "")) and type_of(above) != STACK and above not in seen and len(seen) < DEEPEST:
        top = above
        seen.add(above)
    has_children = top != urn or any(above == urn for above in parents.values())
    return name_of(top) if has_children else ""
