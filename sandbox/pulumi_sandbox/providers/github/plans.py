"""Features that GitHub refuses or ignores on a plan, by the visibility of the repository.

Sources, all in github/docs:

- data/features/restrict-groups-to-workflows.yml: only Enterprise Cloud restricts a runner group to workflows.
- data/reusables/gated-features/repo-rules.md and environments.md.
- content/rest/repos/rules.md: `evaluate` requires GitHub Enterprise.

The sources list the features of a plan, but not the answer of the API without the feature. An answer without a source
below is our own text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.github import types
from pulumi_sandbox.providers.github.organizations import ENTERPRISE, FREE
from pulumi_sandbox.providers.github.types import text_of
from pulumi_sandbox.providers.github.world import refusal_text

# Quoted in github.com/SoftEtherApp/SoftEther-Web/issues/37, for rulesets of a private repository.
UPGRADE = "Upgrade to GitHub Pro or make this repository public to enable this feature."
# Quoted in github.com/Azure/ALZ-PowerShell-Module/issues/193.
REVIEWERS = (
    "Failed to create the environment protection rule. Please ensure the billing plan supports the required reviewers "
    "protection rule."
)
RESTRICTIONS = ("restrictedToWorkflows", "selectedWorkflows")
ENVIRONMENT_TYPES = (types.ENVIRONMENT, types.ENVIRONMENT_SECRET, types.ENVIRONMENT_VARIABLE)
ORGANIZATION_TYPES = (types.ORGANIZATION_SECRET, types.ORGANIZATION_VARIABLE)


def refusals(token: str, inputs: dict[str, Any], owner: str, plan: str, *, public: bool) -> Iterator[str]:
    """Yield GitHub's refusals of a resource. `public` is the visibility of its repository."""
    repository = f"repos/{owner}/{text_of(inputs, 'repository')}"
    environment = f"{repository}/environments/{text_of(inputs, 'environment')}"
    if token == types.RULESET and plan == FREE and not public:
        yield refusal_text("POST", f"{repository}/rulesets", 403, UPGRADE)
    if token == types.RULESET and inputs.get("enforcement") == "evaluate" and plan != ENTERPRISE:
        yield refusal_text(
            "POST", f"{repository}/rulesets", 422, "Validation Failed", "Enforcement evaluate is not available"
        )
    if token in ENVIRONMENT_TYPES and plan == FREE and not public:
        yield refusal_text("PUT" if token == types.ENVIRONMENT else "GET", environment, 403, UPGRADE)
    protected = inputs.get("reviewers") or inputs.get("waitTimer")
    if token == types.ENVIRONMENT and protected and plan != ENTERPRISE and not public:
        yield refusal_text("PUT", environment, 422, REVIEWERS)


def ignored_settings(token: str, inputs: dict[str, Any], plan: str) -> dict[str, Any]:
    """Return the outputs that GitHub sets to other values than requested, without an error.

    GitHub does not document whether it refuses or ignores workflows of a runner group. The sandbox ignores them, the
    harder case for a program. `world break refuse` tests the error.
    """
    if token == types.RUNNER_GROUP and inputs.get("restrictedToWorkflows") and plan != ENTERPRISE:
        return dict(zip(RESTRICTIONS, (False, []), strict=True))
    return {}


def no_effect_warning(token: str, inputs: dict[str, Any], plan: str) -> str:
    """Return a warning about a resource that cannot be used: github.com/orgs/community/discussions/33712."""
    if token in ORGANIZATION_TYPES and plan == FREE and text_of(inputs, "visibility") in ("private", "selected"):
        return "no private repository of an organization on GitHub Free can use it"
    return ""
