"""Read `github:` of sandbox.yaml: the plans of organizations and the permissions of Apps. Apply the plans.

Sources of the features of a plan, all in github/docs:

- data/features/restrict-groups-to-workflows.yml: only Enterprise Cloud restricts a runner group to workflows.
- data/reusables/gated-features/repo-rules.md; content/rest/repos/rules.md: `evaluate` requires GitHub Enterprise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pulumi_sandbox.providers import sandbox_file
from pulumi_sandbox.providers.github import types
from pulumi_sandbox.providers.github.world import refusal_text
from pulumi_sandbox.providers.inputs import text_of

FREE, DEFAULT_PLAN, ENTERPRISE = "free", "team", "enterprise"
# The permissions of an App that sandbox.yaml does not list.
DEFAULT_PERMISSIONS = {"organization_self_hosted_runners": "write", "administration": "write", "metadata": "read"}


@dataclass(frozen=True)
class Organizations:
    """The plans by a glob over the organization's name, and the permissions by the number of the App."""

    plans: Mapping[str, str] = field(default_factory=dict)
    apps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path | None) -> Organizations:
        """Read the file. Raise SettingsError if an entry is not valid."""
        entry = sandbox_file.read(file).get("github") or {}
        apps = {str(app): permissions for app, permissions in (entry.get("apps") or {}).items()}
        return cls(entry.get("plans") or {}, apps)

    def plan(self, owner: str) -> str:
        return next(
            (plan for glob, plan in self.plans.items() if fnmatchcase(owner.lower(), glob.lower())), DEFAULT_PLAN
        )


# Quoted in github.com/SoftEtherApp/SoftEther-Web/issues/37, for rulesets of a private repository.
UPGRADE = "Upgrade to GitHub Pro or make this repository public to enable this feature."
RESTRICTIONS = ("restrictedToWorkflows", "selectedWorkflows")


def plan_refusals(token: str, inputs: dict[str, Any], owner: str, plan: str, *, public: bool) -> Iterator[str]:
    """Yield GitHub's refusals of a ruleset. `public` is the visibility of its repository."""
    call = ("POST", f"repos/{owner}/{text_of(inputs, 'repository')}/rulesets")
    if token == types.RULESET and plan == FREE and not public:
        yield refusal_text(*call, 403, UPGRADE)
    if token == types.RULESET and inputs.get("enforcement") == "evaluate" and plan != ENTERPRISE:
        yield refusal_text(*call, 422, "Validation Failed", "Enforcement evaluate is not available")


def ignored_settings(token: str, inputs: dict[str, Any], plan: str) -> dict[str, Any]:
    """Return the outputs that GitHub sets to other values than requested, without an error.

    GitHub does not document whether it refuses or ignores workflows of a runner group. The sandbox ignores them, the
    harder case for a program. `world break refuse` tests the error.
    """
    if token == types.RUNNER_GROUP and inputs.get("restrictedToWorkflows") and plan != ENTERPRISE:
        return dict(zip(RESTRICTIONS, (False, []), strict=True))
    return {}
