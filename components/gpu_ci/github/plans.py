"""Checks that the organization's GitHub plan includes the features that `gpu-ci:github` uses.

Sources: github/docs: data/features/restrict-groups-to-workflows.yml, data/reusables/gated-features/repo-rules.md and
environments.md, content/rest/repos/rules.md (`evaluate`); github.com/orgs/community/discussions/33712 for secrets and
variables of an organization. For runner groups the pages disagree on GitHub Free
(content/actions/how-tos/manage-runners/self-hosted-runners/manage-access.md); GitHub Team includes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import Problem
from ..validation_errors import join

Plan = Literal["free", "team", "enterprise"]
NAMES: dict[Plan, str] = {"free": "GitHub Free", "team": "GitHub Team", "enterprise": "GitHub Enterprise Cloud"}
_ORDER: tuple[Plan, ...] = tuple(NAMES)

KEY, PLAN = "gpu-ci:github", "gpu-ci:site.github.plan"

_UNCLEAR = "because GitHub's pages disagree whether GitHub Free has runner groups"


@dataclass(frozen=True)
class Need:
    """A field of `gpu-ci:github`, and the smallest plan that includes the feature of the field."""

    path: str
    plan: Plan
    condition: str = ""
    """The condition under which the plan is needed, such as `for a private repository`; empty if it is always needed.
    """

    def __str__(self) -> str:
        verb = "may need" if self.condition == _UNCLEAR else "needs"
        return f"{self.path} {verb} {NAMES[self.plan]} {self.condition}".rstrip()

    def beyond(self, plan: object) -> bool:
        return plan in _ORDER and _ORDER.index(self.plan) > _ORDER.index(plan)


def needs(github: Any) -> list[Need]:
    """Return the fields that some plans do not support. Malformed values are ignored."""
    return list(_needs(_map(github)))


def _needs(github: Mapping[str, Any]) -> Iterator[Need]:
    group = _map(github.get("runnerGroup"))
    if group:
        yield Need(f"{KEY}.runnerGroup", "team", _UNCLEAR)
    if group.get("selectedWorkflows"):
        yield Need(f"{KEY}.runnerGroup.selectedWorkflows", "enterprise")
    for name, entry in _map(github.get("secrets")).items():
        scope = _map(_map(entry).get("scope"))
        path = f"{join(f'{KEY}.secrets', str(name))}.scope"
        if scope.get("kind") == "environment":
            yield Need(path, "team", "for a private repository")
        if scope.get("kind") == "organization" and scope.get("visibility") != "all":
            yield Need(path, "team", "" if scope.get("visibility") == "private" else "for private repositories")
    for name, entry in _map(github.get("rules")).items():
        path = join(f"{KEY}.rules", str(name))
        yield Need(path, "team", "for a private repository")
        if _map(entry).get("enforcement") == "evaluate":
            yield Need(f"{path}.enforcement", "enterprise")


def problems(github: Any, plan: Any) -> list[Problem]:
    """Return the features of a stack file that the organization's plan never includes."""
    return [
        Problem(
            need.path,
            f"needs {NAMES[need.plan]}",
            f"{PLAN}: {plan}",
            f"a plan with this feature: {need.plan}",
            f"remove this field, or change the organization's plan and {PLAN} (docs/guides/github.md, Plans)",
            rule="plan-too-small",
        )
        for need in needs(github)
        if not need.condition and need.beyond(plan)
    ]


def notes(github: Any, plan: Any) -> list[str]:
    """Return a note about needed plans that `problems` does not report.

    The plan is not set, or the needed plan depends on the visibility of a repository.
    """
    if plan is None:
        listed = [each for each in needs(github) if each.beyond("free")]
        hint = f"set {PLAN}: {' or '.join(_ORDER)}, so that the preview rejects features that the plan lacks"
    else:
        listed = [each for each in needs(github) if each.condition and each.beyond(plan)]
        also = ", or if GitHub accepts the group" if any(each.condition == _UNCLEAR for each in listed) else ""
        hint = f"nothing to do for public repositories{also}; else change the plan (docs/guides/github.md, Plans)"
    if not listed:
        return []
    known = "" if plan is None else f"{PLAN} is {plan}, and "
    return [f"GitHub plans: {known}{'; '.join(map(str, listed))}; hint: {hint}"]


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
