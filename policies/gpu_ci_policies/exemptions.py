"""Who may break a rule, why, and until when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from typing import Any

SCHEMA: dict[str, Any] = {
    "type": "array",
    "default": [],
    "description": "Resources that may break the rule for a while.",
    "items": {
        "type": "object",
        "required": ["resource", "reason", "until"],
        "additionalProperties": False,
        "properties": {
            "resource": {"type": "string", "minLength": 1},
            "reason": {"type": "string", "pattern": "\\S+\\s+\\S+"},
            "until": {"type": "string", "format": "date", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
        },
    },
}
"""Of the setting `exempt` of every rule. The engine refuses a configuration that does not fit: one with no reason, or
with no day on which it ends."""


@dataclass(frozen=True)
class Exemption:
    """One entry of `exempt`."""

    resource: str
    """A URN or the name of a resource, with * for any part of it."""
    reason: str
    until: date
    """The last day on which it holds."""

    def covers(self, name: str, urn: str) -> bool:
        return fnmatchcase(name, self.resource) or fnmatchcase(urn, self.resource)


def read(entries: Iterable[Mapping[str, str]]) -> tuple[Exemption, ...]:
    """Those of a configuration that fits SCHEMA. ValueError for a day there is none of, such as 2027-02-30."""
    return tuple(Exemption(each["resource"], each["reason"], date.fromisoformat(each["until"])) for each in entries)


def violation_text(text: str, name: str, urn: str, exemptions: Iterable[Exemption], today: date) -> str | None:
    """A violation as it is reported: None where it is exempt, and with a word about an exemption that has expired."""
    covering = [each for each in exemptions if each.covers(name, urn)]
    if any(each.until >= today for each in covering):
        return None
    if not covering:
        return text
    last = max(covering, key=lambda each: each.until)
    return f"{text}\nAn exemption expired on {last.until}: {last.reason.rstrip('.')}."
