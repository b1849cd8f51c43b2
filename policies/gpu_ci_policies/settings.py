"""Finds settings that no rule reads, of which the engine says nothing: a typing error would switch a rule off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches

from .rules import RULES

EVERY_RULE = "all"
COMMON = ("enforcementLevel", "exempt")
"""What every rule takes; the engine keeps the first for itself."""


def problems(configured: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """What is wrong with the names of rules, and of the settings of each."""
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
