"""Features that GitHub refuses or ignores on a plan, of the resources that the components create.

Sources, all in github/docs:

- data/features/restrict-groups-to-workflows.yml: only Enterprise Cloud restricts a runner group to workflows.
- data/reusables/gated-features/repo-rules.md; content/rest/repos/rules.md: `evaluate` requires GitHub Enterprise.
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
RESTRICTIONS = ("restrictedToWorkflows", "selectedWorkflows")


def refusals(token: str, inputs: dict[str, Any], owner: str, plan: str, *, public: bool) -> Iterator[str]:
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
