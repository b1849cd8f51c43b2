"""Evaluation of the effective rules of an organization policy for one value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpu_catalog import region_of

Rules = Sequence[Mapping[str, Any]]
Matches = Callable[[str, str], bool | None]
"""Returns True if a value of a policy covers a value of a pool, and None if that cannot be determined."""

_REGION = re.compile(r"[a-z]+-[a-z]+\d+")
# Groups of locations that are named after the first word of all their regions.
_CONTINENTS = ("europe", "us")


def is_enforced(rules: Rules) -> bool | None:
    """Return True if a boolean constraint is enforced, and None if that depends on tags of the resource."""
    return _agreed([bool(rule.get("enforce")) for rule in rules], rules)


def refuses(rules: Rules, value: str, covers: Matches) -> bool | None:
    """Return True if a list constraint refuses a value, and None if the rules do not determine it.

    Values of several rules count together, and a denied value counts before an allowed one.
    """
    if any("condition" in rule for rule in rules):
        return _agreed([_refuses([rule], value, covers) for rule in rules], rules)
    return _refuses(rules, value, covers)


def covers_project(value: str, project: str) -> bool | None:
    """Of compute.trustedImageProjects: `projects/<id>`, or the subtree `under:` a project, folder or organization.

    The discovery document orgpolicy v2 describes both in StringValues.
    """
    name = value.removeprefix("is:").removeprefix("under:")
    if name.startswith("projects/"):
        return name == project
    return None


def covers_zone(value: str, zone: str) -> bool | None:
    """Of gcp.resourceLocations: a zone, a region, a multi-region, or a group of locations with `in:`.

    Newer pages say that a region without `in:` is taken for its group, older ones that it holds for regional resources
    alone (docs.cloud.google.com/organization-policy/restrict-locations).
    """
    region = region_of(zone)
    name = value.removeprefix("is:")
    if not name.startswith("in:"):
        return None if name == region else name == zone
    group = name.removeprefix("in:").removesuffix("-locations")
    if f"{region}-".startswith(f"{group}-"):
        return True
    return False if group in _CONTINENTS or _REGION.fullmatch(group) else None


def _refuses(rules: Rules, value: str, covers: Matches) -> bool | None:
    values = [rule.get("values", {}) for rule in rules]
    denied = _any(covers(each, value) for given in values for each in given.get("deniedValues", []))
    if any(rule.get("denyAll") for rule in rules) or denied:
        return True
    allowed = [each for given in values for each in given.get("allowedValues", [])]
    if any(rule.get("allowAll") for rule in rules) or not allowed:
        return denied
    is_allowed = _any(covers(each, value) for each in allowed)
    if is_allowed is False:
        return True
    return None if None in (is_allowed, denied) else False


def _any(answers: Any) -> bool | None:
    found = set(answers)
    return True if True in found else None if None in found else False


def _agreed(answers: Sequence[bool | None], rules: Rules) -> bool | None:
    """Combine the answers of all rules. Without a condition, one True is enough."""
    if any("condition" in rule for rule in rules):
        return answers[0] if len(set(answers)) == 1 else None
    return _any(answers)
