"""Finds settings that no rule reads. The engine does not report them, so a misspelt setting would disable a rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches

from .rules import RULES

EVERY_RULE = "all"
COMMON = ("enforcementLevel", "exempt")
"""The settings of every rule. The engine itself reads the first one."""


def problems(configured: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Yield a problem for each unknown rule and each unknown setting."""
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
