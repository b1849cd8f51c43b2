"""Reads the stack's outputs from the engine's event log (`--event-log`).

The digest (`pulumi preview --json`) lacks the outputs. Each line of the log is one event
(sdk/go/common/apitype/events.go of pulumi/pulumi v3.259.0), and secrets are masked in it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from .. import json_text
from ..diff import differences
from ..diff.values import UNKNOWN, in_digest_form
from ..json_text import TooMuchError, as_list, as_text
from ..model import PropertyChange, Violation
from ..phrases import NO_PACK, number
from .states import STACK

# This project's limit. A parsed line can take twenty times its length in memory.
LONGEST_LINE_BYTES = 16 * 1024**2


class Outputs(NamedTuple):
    """The outputs of the stack in base and head, in the form of the digest."""

    before: Mapping[str, Any]
    after: Mapping[str, Any]

    def differing(self, *, creates_resources: bool) -> tuple[PropertyChange, ...]:
        """Return the outputs that differ.

        A new output with an unknown value counts only if the change creates or replaces a resource. Otherwise the value
        comes from an unchanged resource, and is unknown only because the sandbox does not emulate it.
        """
        found = differences.between(self.before, self.after)
        return tuple(each for each in found if creates_resources or each.kind != "add" or each.after != UNKNOWN)


def outputs(log: Path) -> Outputs:
    """Return the outputs of the stack, or empty maps if the log has none.

    The stack has two such events: one at its registration, with the old outputs, and one at the end, which counts.
    """
    last = Outputs({}, {})
    for _, event in of_kinds(log, ("resOutputsEvent",), STACK):
        metadata = event.get("metadata")
        if isinstance(metadata, Mapping) and metadata.get("type") == STACK:
            last = Outputs(_outputs(metadata.get("old")), _outputs(metadata.get("new")))
    return last


def of_kinds(
    log: Path, kinds: Collection[str], text: str = "", max_mib: float = math.inf
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the events of these kinds in the order of the log, each with its kind.

    Only lines that contain a kind and `text` are parsed, because the log is large. Lines that are no events are
    skipped: a line that was cut off when the engine ended, or a line that is longer than any event.

    Args:
        log: The event log. OSError if it is missing.
        kinds: The kinds of events, which are keys of a line's JSON object.
        text: A text that a line must contain.
        max_mib: The limit of all parsed lines together. TooMuchError for more.
    """
    text_bytes, kind_bytes = text.encode(), [kind.encode() for kind in kinds]
    remaining_bytes = max_mib * 1024**2
    with log.open("rb") as file:
        for line in _lines(file):
            if text_bytes in line and any(kind in line for kind in kind_bytes):
                remaining_bytes -= len(line)
                if remaining_bytes < 0:
                    raise json_text.TooMuchError(f"its events have more than {max_mib:g} MiB")
                try:
                    event = json_text.read(line.decode(errors="replace"))
                except ValueError:
                    continue
                if isinstance(event, Mapping):
                    yield from ((kind, event[kind]) for kind in kinds if isinstance(event.get(kind), Mapping))


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines that can be events. Of a longer line, at most this length is in memory at a time."""
    while line := file.readline(LONGEST_LINE_BYTES):
        if len(line) < LONGEST_LINE_BYTES or line.endswith(b"\n"):
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(LONGEST_LINE_BYTES)


def _outputs(state: Any) -> Mapping[str, Any]:
    return json_text.as_map(in_digest_form(json_text.as_map(json_text.as_map(state).get("outputs"))))


_LOADED, _VIOLATION = "policyLoadEvent", "policyEvent"
# The engine writes one of these events for each resource and each pack, or for the stack. The event has the name and
# version of the pack, and the names of the rules that checked the resource. A pack without a rule for it has none.
SUMMARIES = ("policyAnalyzeSummaryEvent", "policyAnalyzeStackSummaryEvent")
# Measured: a pack of 40 rules writes 2 KiB for each resource, and a violation takes 1 KiB of memory.
_MAX_EVENTS_MIB = 32.0
_MAX_VIOLATIONS = 10_000


def violations(event_log: Path) -> tuple[list[Violation], str]:
    """Return the policy violations in the order of their URNs, and a sentence that names the packs.

    Raises:
        OSError: the log is missing.
        TooMuchError: the log is larger than any real policy pack needs.
    """
    found: list[Violation] = []
    packs: dict[str, set[str]] = {}
    loaded = False
    for kind, event in of_kinds(event_log, (_LOADED, _VIOLATION, *SUMMARIES), max_mib=_MAX_EVENTS_MIB):
        loaded = loaded or kind == _LOADED
        if kind == _VIOLATION:
            found.append(_violation(event))
            if len(found) > _MAX_VIOLATIONS:
                raise TooMuchError(f"it has more than {_MAX_VIOLATIONS:,} policy violations")
        elif kind in SUMMARIES:
            pack = " ".join(as_text(event.get(key)) for key in ("policyPackName", "policyPackVersion")).strip()
            rules = packs.setdefault(pack, set())
            rules.update(as_text(rule) for key in ("passed", "failed") for rule in as_list(event.get(key)))
    # Resources are checked in parallel, so the order of the log differs between runs.
    return sorted(found, key=lambda each: (each.urn, each.policy, each.text)), _sentence(packs, loaded)


def _violation(event: Mapping[str, Any]) -> Violation:
    # `remediate` marks a rule that could not correct its violation. That fails a preview too.
    is_mandatory = event.get("enforcementLevel") in ("mandatory", "remediate")
    return Violation(
        policy=as_text(event.get("policyName")),
        pack=as_text(event.get("policyPackName")),
        level="mandatory" if is_mandatory else "advisory",
        text=as_text(event.get("message")).strip(),
        urn=as_text(event.get("resourceUrn")),
    )


def _sentence(packs: Mapping[str, set[str]], loaded: bool) -> str:
    if not packs:
        return "policy packs were requested, but none ran" if loaded else NO_PACK
    each = (f"{name} ({number(len(rules), 'rule')})" for name, rules in sorted(packs.items()))
    return f"ran {', '.join(each)}"
