"""Evaluate the conditions of grants: terms about the name of the resource, the prefix of a list or the roles that a
request grants and revokes, joined by ||.

Sources: cloud.google.com/iam/docs/conditions-attribute-reference, conditions-resource-attributes and
setting-limits-on-granting-roles. A condition with anything else does not hold, so that its grant permits nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAME = re.compile(r'resource\.name(?:\.extract\("([^"{]*)\{\w+\}"\))?\.startsWith\("([^"]*)"\)')
_PREFIX = re.compile(r'api\.getAttribute\("storage\.googleapis\.com/objectListPrefix", ""\)\.startsWith\("([^"]*)"\)')
# A list has at most 10 roles.
_ROLES = re.compile(
    r"api\.getAttribute\('iam\.googleapis\.com/modifiedGrantsByRole', \[\]\)\.hasOnly\(\[((?:'[^']+'(?:, )?){1,10})\]\)"
)


@dataclass(frozen=True)
class Asked:
    """What a condition may ask about a request."""

    name: str = ""
    """The path of the resource, such as projects/p/zones/z/instances/n."""
    list_prefix: str = ""
    """The prefix of a list of objects."""
    roles: tuple[str, ...] = ()
    """The roles whose grants a request changes."""


def holds(expression: str, asked: Asked) -> bool:
    """Return True if the condition holds."""
    return any(_term(term.strip(), asked) for term in expression.split("||"))


def _term(term: str, asked: Asked) -> bool:
    if match := _NAME.fullmatch(term):
        before, start = match.groups()
        return (asked.name if before is None else asked.name.partition(before)[2]).startswith(start)
    if match := _PREFIX.fullmatch(term):
        return asked.list_prefix.startswith(match[1])
    if match := _ROLES.fullmatch(term):
        return set(asked.roles) <= set(re.findall("'([^']+)'", match[1]))
    return False
