"""Reads the policies of AWS (JSON texts in inputs): the actions that they allow, and the identities that they trust."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...diff.value_pairs import decoded, pairs

_DOCUMENTS = ("policy", "assumeRolePolicy", "accessPolicies", "accessPolicy", "repositoryPolicy")


def statements(inputs: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield every statement with the effect `Allow`, of every policy in a resource's inputs."""
    for pair in pairs(None, inputs):
        if pair.key not in _DOCUMENTS or pair.path[-1] != pair.key:
            continue
        document = decoded(pair.after)
        found = document.get("Statement") if isinstance(document, Mapping) else None
        for each in found if isinstance(found, list) else [found]:
            if isinstance(each, Mapping) and each.get("Effect") == "Allow":
                yield each


def open_to_anyone(inputs: Mapping[str, Any]) -> set[str]:
    """Return the actions that everyone may take: those with a principal of `*` and without a condition."""
    return {
        action
        for each in statements(inputs)
        if _anyone(each.get("Principal")) and not each.get("Condition")
        for action in texts(each.get("Action"))
    }


def broad(inputs: Mapping[str, Any]) -> set[str]:
    """Return broad actions: `*` on any resource, all actions of a service on all resources, and NotAction."""
    found = set()
    for each in statements(inputs):
        if each.get("NotAction"):
            found.add("all but some (NotAction)")
        everywhere = "*" in texts(each.get("Resource"))
        found |= {act for act in texts(each.get("Action")) if act == "*" or (act.endswith(":*") and everywhere)}
    return found


@dataclass(frozen=True)
class Trust:
    """The trust of a role in the tokens of one OpenID Connect provider."""

    provider: str
    subjects: tuple[str, ...]
    """Patterns of the trusted `sub` claims. Without patterns, the role trusts every subject of the provider."""

    @property
    def is_wide(self) -> bool:
        """True if any repository, or any repository of an organization, can assume the role."""
        return not self.subjects or any(_is_wide(each) for each in self.subjects)

    def added_since(self, before: Trust) -> list[str]:
        """Return the subjects that `before` does not trust."""
        return [each for each in self.subjects if not any(_covers(old, each) for old in before.subjects)]


def trusts(inputs: Mapping[str, Any]) -> dict[str, Trust]:
    """Return the trusts of a role by the name of the provider: the part of its ARN after `oidc-provider/`."""
    found: dict[str, Trust] = {}
    for each in statements(inputs):
        principal = each.get("Principal")
        for arn in texts(principal.get("Federated") if isinstance(principal, Mapping) else None):
            _, marker, provider = arn.partition("oidc-provider/")
            if not marker:
                continue
            subjects = tuple(_subjects(each.get("Condition"), f"{provider}:sub"))
            earlier = found.get(provider)
            if earlier is None:
                found[provider] = Trust(provider, subjects)
            else:  # A role trusts every subject if one of its statements has no condition.
                all_conditional = earlier.subjects and subjects
                found[provider] = Trust(provider, (*earlier.subjects, *subjects) if all_conditional else ())
    return found


def texts(value: Any) -> list[str]:
    """Return the texts in a list, or one text as a list. Other values are left out."""
    found = value if isinstance(value, list) else [value]
    return [each for each in found if isinstance(each, str)]


def _subjects(condition: Any, key: str) -> Iterator[str]:
    for operator, tests in condition.items() if isinstance(condition, Mapping) else ():
        if not isinstance(operator, str) or not isinstance(tests, Mapping):
            continue
        like, equals = "StringLike" in operator, "StringEquals" in operator
        # These limit no subject: an IfExists operator accepts a token without the claim, and an operator such as
        # StringNotLike accepts every subject except some.
        if not (like or equals) or "IfExists" in operator:
            continue
        # Escape for fnmatch: StringLike has the wildcards `*` and `?`, and StringEquals has none.
        found = (each.replace("[", "[[]") for each in texts(tests.get(key)))
        yield from (each if like else each.replace("*", "[*]").replace("?", "[?]") for each in found)


def _is_wide(pattern: str) -> bool:
    """Return True for `*`, `repo:*` and all repositories of an owner."""
    if pattern.startswith("repo:"):
        owner, _, repository = pattern.removeprefix("repo:").partition("/")
        return "*" in owner.replace("[*]", "") or repository.startswith("*") or not repository
    return pattern.startswith("*")


def _covers(old: str, new: str) -> bool:
    return old == new or (max(len(old), len(new)) < 1000 and fnmatch.fnmatchcase(new, old))


def _anyone(principal: Any) -> bool:
    return principal == "*" or (isinstance(principal, Mapping) and "*" in texts(principal.get("AWS")))
