"""Reads policy violations from the event log of a preview (`--event-log`, with PULUMI_DEBUG_COMMANDS)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..engine import events
from ..json_text import TooMuchError, as_list, as_text
from ..model import Violation
from ..phrases import NO_PACK

_LOADED, _VIOLATION = "policyLoadEvent", "policyEvent"
NONE_RAN = "policy packs were requested, but none ran"
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
    for kind, event in events.of_kinds(event_log, (_LOADED, _VIOLATION, *SUMMARIES), max_mib=_MAX_EVENTS_MIB):
        loaded = loaded or kind == _LOADED
        if kind == _VIOLATION:
            found.append(violation(event))
            if len(found) > _MAX_VIOLATIONS:
                raise TooMuchError(f"it has more than {_MAX_VIOLATIONS:,} policy violations")
        elif kind in SUMMARIES:
            rules = packs.setdefault(pack(event), set())
            rules.update(as_text(rule) for key in ("passed", "failed") for rule in as_list(event.get(key)))
    # Resources are checked in parallel, so the order of the log differs between runs.
    return sorted(found, key=lambda each: (each.urn, each.policy, each.text)), packs_sentence(packs, loaded)


def violation(event: Mapping[str, Any]) -> Violation:
    level = event.get("enforcementLevel")
    return Violation(
        policy=as_text(event.get("policyName")),
        pack=as_text(event.get("policyPackName")),
        # `remediate` marks a rule that could not correct its violation. That fails a preview too.
        level="mandatory" if level in ("mandatory", "remediate") else "advisory",
        text=as_text(event.get("message")).strip(),
        urn=as_text(event.get("resourceUrn")),
    )


def pack(event: Mapping[str, Any]) -> str:
    return f"{as_text(event.get('policyPackName'))} {as_text(event.get('policyPackVersion'))}".strip()


def packs_sentence(packs: Mapping[str, set[str]], loaded: bool) -> str:
    if not packs:
        return NONE_RAN if loaded else NO_PACK
    each = (f"{name} ({len(rules)} {'rule' if len(rules) == 1 else 'rules'})" for name, rules in sorted(packs.items()))
    return f"ran {', '.join(each)}"
