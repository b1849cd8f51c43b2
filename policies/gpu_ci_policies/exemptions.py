"""Exemptions from rules, each with a reason and an end date."""

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
"""The JSON Schema of the setting `exempt` of every rule. The engine refuses a configuration that does not match, such
as an exemption without a reason or without an end date."""


@dataclass(frozen=True)
class Exemption:
    """One entry of `exempt`."""

    resource: str
    """A URN or the name of a resource, with * for any part of it."""
    reason: str
    until: date
    """The last day of the exemption."""

    def covers(self, name: str, urn: str) -> bool:
        return fnmatchcase(name, self.resource) or fnmatchcase(urn, self.resource)


def read(entries: Iterable[Mapping[str, str]]) -> tuple[Exemption, ...]:
    """Return the exemptions of a configuration that matches SCHEMA. Raise ValueError for a date such as 2027-02-30."""
    return tuple(Exemption(each["resource"], each["reason"], date.fromisoformat(each["until"])) for each in entries)


def violation_text(text: str, name: str, urn: str, exemptions: Iterable[Exemption], today: date) -> str | None:
    """Return the text of a violation, or None if the resource is exempt. The text mentions an expired exemption."""
    covering = [each for each in exemptions if each.covers(name, urn)]
    if any(each.until >= today for each in covering):
        return None
    if not covering:
        return text
    last = max(covering, key=lambda each: each.until)
    return f"{text}\nAn exemption expired on {last.until}: {last.reason.rstrip('.')}."
