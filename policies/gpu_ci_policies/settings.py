"""The settings of rules: exemptions, each with a reason and an end date, and settings that no rule reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

from .rules import RULES

EXEMPT_SCHEMA: dict[str, Any] = {
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


def exemptions_of(entries: Iterable[Mapping[str, str]]) -> tuple[Exemption, ...]:
    """Return the exemptions of a configuration that matches the schema. Raise ValueError for a day like 2027-02-30."""
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


EVERY_RULE = "all"
COMMON = ("enforcementLevel", "exempt")
"""The settings of every rule. The engine itself reads the first one."""


def problems(configured: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Yield each unknown rule and setting. The engine ignores them, so a misspelt one would have no effect."""
    settings_of = {rule.name: (*rule.settings, *COMMON) for rule in RULES} | {EVERY_RULE: COMMON[:1]}
    for name, settings in sorted(configured.items()):
        if name not in settings_of:
            yield unknown(name, "no such rule", name, settings_of)
            continue
        for setting in sorted(settings):
            if setting not in settings_of[name]:
                yield unknown(f"{name}.{setting}", "no such setting", setting, settings_of[name])


def unknown(where: str, problem: str, got: str, expected: Iterable[str]) -> str:
    listed = sorted(expected)
    nearest = get_close_matches(got, listed, n=1)
    hint = f"\n  hint: did you mean {nearest[0]}?" if nearest else ""
    return f"{where}: {problem}\n  got: {got}\n  expected: {', '.join(listed)}{hint}"
