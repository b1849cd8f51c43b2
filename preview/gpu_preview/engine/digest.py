"""Reads the output of `pulumi preview --json` (the digest): the engine's steps, as resources of a report.

The form is that of pulumi/pulumi v3.259.0, pkg/backend/display/json.go and sdk/go/common/display/json.go. The engine
creates it from its events. With `--show-sames` it has unchanged resources too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from .. import json_text
from ..json_text import as_list, as_map
from ..model import Counts, Operation, Resource
from . import digest_form
from .digest_steps import OPERATIONS, name_of, resource, state, type_of
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


class DigestError(ValueError):
    """The input is not a digest. The text says why."""


class DigestTooLargeError(DigestError):
    """The input is larger than any real one, and is not read."""


@dataclass(frozen=True)
class Diagnostic:
    """A message of the engine or of the program."""

    severity: str
    message: str
    urn: str = ""


@dataclass(frozen=True)
class Digest:
    """One preview of one stack."""

    resources: tuple[Resource, ...] = ()
    before: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The engine's states of the existing resources, by their URN after the change."""
    after: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()
    unlisted: int = 0
    """The number of unchanged resources that are not listed, because the digest was made without `--show-sames`.
    This number is the engine's own, and includes the providers that the engine creates."""

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
        listed = Counts.of(self.resources)
        return listed.model_copy(update={"same": listed.same + self.unlisted})


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
        if much := digest_form.too_many(document):
            raise json_text.TooMuchError(much)
        parsed = digest_form.Document.model_validate(document)
        return _of(document, parsed)
    except json_text.TooMuchError as error:
        raise DigestTooLargeError(f"is larger than any real preview: {error}") from None
    except ValidationError as error:
        raise DigestError(
            "\n".join(["is not what `pulumi preview --json` prints", *digest_form.problems(error)])
        ) from None
    except DigestError:
        raise
    except ValueError:
        raise DigestError("is not what `pulumi preview --json` prints") from None


def _of(document: Mapping[str, Any], parsed: digest_form.Document) -> Digest:
    if not parsed.is_preview:
        raise DigestError("is not what `pulumi preview --json` prints\n  expected: `steps`, or `changeSummary`")
    if parsed.lacks_counted_steps:
        raise DigestError("counts changes in `changeSummary`, and has no `steps`: a part of it is missing")
    steps: list[dict[str, Any]] = document.get("steps") or []
    diagnostics = tuple(Diagnostic(one.severity, one.message, one.urn) for one in parsed.diagnostics or ())
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
        _unlisted(states, (parsed.change_summary or {}).get("same", 0)),
    )


def _by_urn(steps: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the step of each resource. DigestError for an unknown operation."""
    found: dict[str, dict[str, Any]] = {}
    for step in steps:
        if (operation := step["op"]) in _UNREPORTED_OPERATIONS:
            continue
        if operation not in OPERATIONS:
            raise DigestError(f"has an unknown operation\n  got: {ascii(operation)[:100]}")
        other = found.get(step["urn"])
        if other is None or _severity_rank(other) <= _severity_rank(step):
            found[step["urn"]] = step
    return found


def _severity_rank(step: Mapping[str, Any]) -> int:
    return _WORST_LAST.index(OPERATIONS[step["op"]])


def _unlisted(states: Mapping[str, Mapping[str, Any]], same: int) -> int:
    """Return how many unchanged resources the engine counted and did not list.

    The engine counts the stack too. It is not a resource here, so it is subtracted if no step shows it.
    """
    if any(step["op"] == "same" for step in states.values()):
        return 0
    return max(0, same - (not any(type_of(urn) == STACK for urn in states)))


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
