"""Reads the output of `pulumi preview --json` (the digest): the engine's steps, as resources of a report.

The form is that of pulumi/pulumi v3.259.0, pkg/backend/display/json.go and sdk/go/common/display/json.go. The engine
creates it from its events. With `--show-sames` it has unchanged resources too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from .. import json_text
from ..diff import differences
from ..diff.value_pairs import revealed
from ..diff.values import SECRET, WAS_SECRET
from ..json_text import DEEPEST, as_list, as_map
from ..model import Counts, Operation, PropertyChange, Resource
from .states import STACK

_PROVIDERS = "pulumi:providers:"
_UNKNOWN_TYPE = re.compile(r"(\S+): only its shape is checked\b")
"""The sandbox's message about a type that it does not emulate: an update of it may be a replacement."""
# The text that the language host adds to the errors of a failed program.
_PROGRAM_FAILED = "an unhandled error occurred: program exited with non-zero exit code"
# Steps that repeat another step, and reads of existing resources.
_UNREPORTED_OPERATIONS = (
    "delete-replaced",
    "discard",
    "discard-replaced",
    "remove-pending-replace",
    "read-replacement",
)
# If one URN has two steps, the worse one counts.
_WORST_LAST = (Operation.SAME, Operation.CREATE, Operation.UPDATE, Operation.REPLACE, Operation.DELETE)

# The most changed properties in a digest. Each takes 1 KiB of memory; an update of 100 pools has 900.
_MAX_CHANGES = 100_000
_NO_DIGEST = "is not what `pulumi preview --json` prints"


class DigestError(ValueError):
    """The input is not a digest. The text says why."""


class DigestTooLargeError(DigestError):
    """The input is larger than any real one, and is not read."""


@dataclass(frozen=True)
class Digest:
    """One preview of one stack."""

    resources: tuple[Resource, ...] = ()
    before: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The engine's states of the existing resources, by their URN after the change."""
    after: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def errors(self) -> list[str]:
        """The errors of the preview, each once. `_PROGRAM_FAILED` is listed only if it is the only error."""
        found = dict.fromkeys(each.message.strip() for each in self.diagnostics if each.severity == "error")
        causes = [text for text in found if _PROGRAM_FAILED not in text]
        return causes or list(found)

    @property
    def warnings(self) -> list[Diagnostic]:
        """The warnings of the engine, the program and the providers, each once."""
        found = {(each.message.strip(), each.urn): each for each in self.diagnostics if each.severity == "warning"}
        return list(found.values())

    @property
    def counts(self) -> Counts:
        """The number of each operation. Listed providers are left out, because they are not cloud resources."""
        return Counts.of(self.resources)


def read(file: Path) -> Digest:
    """Return the digest in a file.

    Raises:
        DigestError: the file has something else, such as the output of a failed command.
        OSError: the file cannot be read.
    """
    return _digest(lambda: json_text.read_file(file))


def parse(text: str) -> Digest:
    """Return the digest. DigestError for anything else."""
    return _digest(lambda: json_text.read(text))


def _digest(source: Callable[[], Any]) -> Digest:
    try:
        document = source()
        if much := too_many(document):
            raise json_text.TooMuchError(much)
        parsed = Document.model_validate(document)
        return _of(document, parsed)
    except json_text.TooMuchError as error:
        raise DigestTooLargeError(f"is larger than any real preview: {error}") from None
    except ValueError:
        raise DigestError(_NO_DIGEST) from None


def _of(document: Mapping[str, Any], parsed: Document) -> Digest:
    if not parsed.is_preview:
        raise DigestError(_NO_DIGEST)
    steps: list[dict[str, Any]] = document.get("steps") or []
    diagnostics = tuple(parsed.diagnostics or ())
    states = _by_urn(steps)
    parents = {urn: str(state(step).get("parent") or "") for urn, step in states.items()}
    unclear = {found[1] for one in diagnostics if (found := _UNKNOWN_TYPE.match(one.message))}
    resources = []
    remaining = _MAX_CHANGES
    for urn, step in sorted(states.items()):
        if not _is_left_out(urn):
            resources.append(resource(step, urn, parents, unclear, remaining))
            remaining -= len(resources[-1].properties)
    return Digest(
        tuple(resources),
        {urn: step["oldState"] for urn, step in states.items() if isinstance(step.get("oldState"), dict)},
        {urn: step["newState"] for urn, step in states.items() if isinstance(step.get("newState"), dict)},
        diagnostics,
    )


def _by_urn(steps: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the step of each resource. DigestError for an unknown operation."""
    found: dict[str, dict[str, Any]] = {}
    for step in steps:
        if (operation := step["op"]) in _UNREPORTED_OPERATIONS:
            continue
        if operation not in OPERATIONS:
            raise DigestError(_NO_DIGEST)
        other = found.get(step["urn"])
        if other is None or _severity_rank(other) <= _severity_rank(step):
            found[step["urn"]] = step
    return found


def _severity_rank(step: Mapping[str, Any]) -> int:
    return _WORST_LAST.index(OPERATIONS[step["op"]])


def of_state(text: str) -> tuple[Resource, ...]:
    """Return the resources in the output of `pulumi stack export`, unchanged; none in any other output."""
    try:
        states = as_list(as_map(as_map(json_text.read(text)).get("deployment")).get("resources"))
        steps = [{"op": "same", "urn": one.get("urn"), "newState": one} for one in states if isinstance(one, dict)]
        return _digest(lambda: {"steps": steps}).resources
    except ValueError:
        return ()


def _is_left_out(urn: str) -> bool:
    kind = type_of(urn)
    default = kind.startswith(_PROVIDERS) and name_of(urn).startswith("default")
    return kind == STACK or default


# A model takes 1 KiB of memory, and a problem as much, so entries are counted first. A digest of 100 pools has 741
# steps.
_MAX_ITEMS = {"steps": 20_000, "diagnostics": 20_000}


class _Form(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, strict=True)


def _all_diffs(given: dict[str, Any]) -> dict[str, Any]:
    # Paths have no model each: there can be many, and only the first problem is reported.
    for one in given.values():
        if not (
            isinstance(one, dict)
            and isinstance(one.get("kind", ""), str)
            and isinstance(one.get("inputDiff", False), bool)
        ):
            raise ValueError("each path should have an object with `kind` and `inputDiff`")
    return given


_Names = Annotated[list[str], Field(fail_fast=True)]


class State(_Form):
    """A resource in one revision."""

    urn: str | None = None
    parent: str | None = None
    inputs: dict[str, Any] | None = None
    outputs: dict[str, Any] | None = None
    dependencies: _Names | None = None
    protect: bool | None = None


class Step(_Form):
    """The step of one resource."""

    op: str
    urn: str
    old_state: State | None = None
    new_state: State | None = None
    detailed_diff: Annotated[dict[str, Any], AfterValidator(_all_diffs)] | None = None
    diff_reasons: _Names | None = None
    replace_reasons: _Names | None = None


class Diagnostic(_Form):
    """A message of the engine or of the program."""

    severity: str = ""
    message: str = ""
    urn: str = ""


class Document(_Form):
    """The whole digest."""

    steps: list[Step] | None = None
    diagnostics: list[Diagnostic] | None = None
    change_summary: dict[str, Any] | None = None
    duration: int | None = None

    @property
    def is_preview(self) -> bool:
        """True if the engine has written the whole document. Without this check, any object would be an empty preview.

        The engine writes at least the duration for a stack without resources, and the errors of a failed program.
        """
        failed = any(each.severity == "error" for each in self.diagnostics or ())
        counted = any(count for name, count in (self.change_summary or {}).items() if name != "same")
        known = any(part is not None for part in (self.steps, self.change_summary, self.duration))
        return failed or (known and (bool(self.steps) or not counted))


def too_many(document: Any) -> str:
    """Return what the digest has too much of, or an empty text."""
    for part, most in _MAX_ITEMS.items():
        if isinstance(document, Mapping) and isinstance(found := document.get(part), list) and len(found) > most:
            return f"{part}: got {len(found):,}\n  expected: {most:,} at most"
    return ""


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
