"""Policies of AWS as JSON text: who may do what."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...diff.value_pairs import decoded, pairs

_DOCUMENTS = ("policy", "assumeRolePolicy", "accessPolicies", "accessPolicy", "repositoryPolicy")


def statements(inputs: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every statement that allows something, of every policy in a resource's inputs."""
    for pair in pairs(None, inputs):
        if pair.key not in _DOCUMENTS or pair.path[-1] != pair.key:
            continue
        document = decoded(pair.after)
        found = document.get("Statement") if isinstance(document, Mapping) else None
        for each in found if isinstance(found, list) else [found]:
            if isinstance(each, Mapping) and each.get("Effect") == "Allow":
                yield each


def open_to_anyone(inputs: Mapping[str, Any]) -> set[str]:
    """The actions that everybody may take: a principal of `*`, and no condition."""
    return {
        action
        for each in statements(inputs)
        if _anyone(each.get("Principal")) and not each.get("Condition")
        for action in texts(each.get("Action"))
    }


def broad(inputs: Mapping[str, Any]) -> set[str]:
    """The actions with a `*` for all of a service, or for all there are, on whatever there is."""
    found = set()
    for each in statements(inputs):
        if each.get("NotAction"):
            found.add("all but some (NotAction)")
        everywhere = "*" in texts(each.get("Resource"))
        found |= {act for act in texts(each.get("Action")) if act == "*" or (act.endswith(":*") and everywhere)}
    return found


@dataclass(frozen=True)
class Trust:
    """Whom a role trusts by OpenID Connect: the subjects, as patterns; none where there is no condition on them."""

    provider: str
    subjects: tuple[str, ...]

    @property
    def everybody(self) -> bool:
        """Whether any repository can take on the role, or any branch and pull request of an organization's."""
        return not self.subjects or any(_is_wide(each) for each in self.subjects)

    def added_since(self, other: Trust | None) -> list[str]:
        """The subjects that the other does not trust."""
        old = other.subjects if other else ()
        return [each for each in self.subjects if not any(_covers(known, each) for known in old)]


def trusts(inputs: Mapping[str, Any]) -> dict[str, Trust]:
    """By the name of the provider, which stands after `oidc-provider/` in its ARN."""
    found: dict[str, Trust] = {}
    for each in statements(inputs):
        principal = each.get("Principal")
        for arn in texts(principal.get("Federated") if isinstance(principal, Mapping) else None):
            _, marker, provider = arn.partition("oidc-provider/")
            if not marker:
                continue
            subjects = tuple(_subjects(each.get("Condition"), f"{provider}:sub"))
            known = found.get(provider)
            if known is None:
                found[provider] = Trust(provider, subjects)
            else:  # one statement without a condition is enough
                found[provider] = Trust(provider, (*known.subjects, *subjects) if known.subjects and subjects else ())
    return found


def texts(value: Any) -> list[str]:
    """One text or a list of them."""
    found = value if isinstance(value, list) else [value]
    return [each for each in found if isinstance(each, str)]


def _subjects(condition: Any, key: str) -> Iterator[str]:
    for operator, tests in condition.items() if isinstance(condition, Mapping) else ():
        if not isinstance(operator, str) or not isinstance(tests, Mapping):
            continue
        like, equals = "StringLike" in operator, "StringEquals" in operator
        # IfExists lets in who says nothing; StringNotLike, which is neither, keeps somebody out and lets in the others.
        if not (like or equals) or "IfExists" in operator:
            continue
        # StringLike knows `*` and `?`, and StringEquals not even these; a `[` is no sign to either of them.
        found = (each.replace("[", "[[]") for each in texts(tests.get(key)))
        yield from (each if like else each.replace("*", "[*]").replace("?", "[?]") for each in found)


def _is_wide(pattern: str) -> bool:
    """`*`, `repo:*`, or all repositories of an owner."""
    if pattern.startswith("repo:"):
        owner, _, repository = pattern.removeprefix("repo:").partition("/")
        return "*" in owner.replace("[*]", "") or repository.startswith("*") or not repository
    return pattern.startswith("*")


def _covers(known: str, new: str) -> bool:
    return known == new or (max(len(known), len(new)) < 1000 and fnmatch.fnmatchcase(new, known))


def _anyone(principal: Any) -> bool:
    return principal == "*" or (isinstance(principal, Mapping) and "*" in texts(principal.get("AWS")))
