"""Evaluates the effective rules of an organization policy of Google, for `gpu-ci doctor`.

A boolean constraint is enforced or not. A list constraint allows or denies values, such as projects of images. A
function returns None if the result depends on tags of the resource, or on a group with unknown members.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gpu_catalog import region_of

Rules = Sequence[Mapping[str, Any]]
Matches = Callable[[str, str], bool | None]
"""A function that compares a value of a policy (first argument) with a value of a pool (second argument).

The function returns True if the policy's value includes the pool's value, and None if this is unknown.
"""

_REGION = re.compile(r"[a-z]+-[a-z]+\d+")
# Groups of locations, such as in:europe-locations. All regions of such a group start with its name.
_CONTINENTS = ("europe", "us")


def is_enforced(rules: Rules) -> bool | None:
    """Return True if a boolean constraint is enforced, and None if the result depends on tags of the resource."""
    return _combined({bool(rule.get("enforce")) for rule in rules}, rules)


def refuses(rules: Rules, value: str, covers: Matches) -> bool | None:
    """Return True if a list constraint refuses a value, and None if the rules do not determine it.

    The values of all rules count together. If a value is both allowed and denied, it is denied.
    """
    if any("condition" in rule for rule in rules):
        return _combined({_refuses([rule], value, covers) for rule in rules}, rules)
    return _refuses(rules, value, covers)


def covers_project(value: str, project: str) -> bool | None:
    """Compare a value of compute.trustedImageProjects with a project.

    The value is `projects/<id>`, or `under:` and a project, folder or organization, which includes everything in it
    (discovery document orgpolicy v2, StringValues).
    """
    name = value.removeprefix("is:").removeprefix("under:")
    if name.startswith("projects/"):
        return name == project
    return None


def covers_zone(value: str, zone: str) -> bool | None:
    """Compare a value of gcp.resourceLocations with a zone.

    The value is a zone, a region, a multi-region, or `in:` and a group of locations. For a region without `in:`, the
    answer is None: newer pages say that it includes the zones of the region, and older pages that it includes only
    regional resources (docs.cloud.google.com/organization-policy/restrict-locations).
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
    lists = [rule.get("values", {}) for rule in rules]
    denied = _any(covers(each, value) for values in lists for each in values.get("deniedValues", []))
    if any(rule.get("denyAll") for rule in rules) or denied:
        return True
    allowed = [each for values in lists for each in values.get("allowedValues", [])]
    if any(rule.get("allowAll") for rule in rules) or not allowed:
        return denied
    is_allowed = _any(covers(each, value) for each in allowed)
    if is_allowed is False:
        return True
    return None if None in (is_allowed, denied) else False


def _any(answers: Iterable[bool | None]) -> bool | None:
    """Return True if an answer is True, else None if an answer is None, else False."""
    found = set(answers)
    return True if True in found else None if None in found else False


def _combined(answers: set[bool | None] | set[bool], rules: Rules) -> bool | None:
    """Combine the answers of all rules. If a rule has a condition, it is unknown which rule applies."""
    if any("condition" in rule for rule in rules):
        return next(iter(answers)) if len(answers) == 1 else None
    return _any(answers)
