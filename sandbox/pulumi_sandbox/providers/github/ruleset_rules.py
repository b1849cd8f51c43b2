"""The validation of a ruleset in the provider, as in rules.py: terraform-provider-github v6.13.0 (20728bb3).

Sources: github/resource_github_repository_ruleset.go (the schema) and github/util_ruleset_validation.go (the allowed
combinations).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_sandbox.providers.github.rules import between, one_of, repository_name, rows, table
from pulumi_sandbox.providers.github.types import text_of
from pulumi_sandbox.providers.resource import Problem

Values = dict[str, Any]

TARGETS = ("branch", "push", "tag")
ACTORS = ("RepositoryRole", "Team", "Integration", "OrganizationAdmin", "DeployKey", "EnterpriseOwner", "User")
MODES = ("always", "pull_request", "exempt")
OPERATORS = ("starts_with", "ends_with", "contains", "regex")
PATTERNS = (
    "commitMessagePattern", "commitAuthorEmailPattern", "committerEmailPattern", "branchNamePattern", "tagNamePattern",
)  # fmt: skip
# Rules for pushes. All other rules are for branches and tags.
PUSH_RULES = {
    "filePathRestriction": "file_path_restriction",
    "maxFilePathLength": "max_file_path_length",
    "fileExtensionRestriction": "file_extension_restriction",
    "maxFileSize": "max_file_size",
}


def ruleset(inputs: Values) -> Iterator[Problem]:
    """Check one ruleset."""
    name = inputs.get("name")
    if isinstance(name, str) and not 1 <= len(name) <= 100:
        yield Problem("name", f"expected length of name to be in the range (1 - 100), got {name}")
    yield from repository_name(inputs, "repository")
    yield from one_of(inputs, "target", TARGETS)
    yield from one_of(inputs, "enforcement", ("disabled", "active", "evaluate"))
    for at, actor in enumerate(rows(inputs.get("bypassActors"))):
        yield from one_of(actor, "actorType", ACTORS, f"bypassActors[{at}].actorType")
        yield from one_of(actor, "bypassMode", MODES, f"bypassActors[{at}].bypassMode")
    rules = table(inputs.get("rules"))
    yield from rule_values(rules)
    yield from conditions(text_of(inputs, "target"), inputs.get("conditions"))
    yield from rules_of_target(text_of(inputs, "target"), rules)


def rule_values(rules: Mapping[str, Any]) -> Iterator[Problem]:
    review = table(rules.get("pullRequest"))
    path = "rules.pullRequest.requiredApprovingReviewCount"
    yield from between(review, "requiredApprovingReviewCount", path, 0, 10)
    for at, method in enumerate(review.get("allowedMergeMethods") or ()):
        given = {"allowedMergeMethods": method}
        path = f"rules.pullRequest.allowedMergeMethods[{at}]"
        yield from one_of(given, "allowedMergeMethods", ("merge", "squash", "rebase"), path)
    checks = table(rules.get("requiredStatusChecks"))
    if isinstance(checks.get("requiredChecks"), list) and not checks["requiredChecks"]:
        yield Problem(
            "rules.requiredStatusChecks.requiredChecks",
            "Not enough list items: requires 1 item minimum, but has only 0",
        )
    for name in PATTERNS:
        yield from one_of(table(rules.get(name)), "operator", OPERATORS, f"rules.{name}.operator")
    if rules.get("branchNamePattern") and rules.get("tagNamePattern"):
        yield Problem(
            "rules.branchNamePattern", '"rules.0.branch_name_pattern": conflicts with rules.0.tag_name_pattern'
        )


def conditions(target: str, condition_input: Any) -> Iterator[Problem]:
    """Check the conditions, as in validateRulesetConditions."""
    if not isinstance(condition_input, Mapping) or not target:
        return
    ref_name = condition_input.get("refName")
    if target == "push" and ref_name:
        yield Problem("conditions", "ref_name must not be set for push target")
    elif target in ("branch", "tag") and ref_name is None:
        yield Problem("conditions", f"ref_name must be set for {target} target")


def rules_of_target(target: str, rules: Mapping[str, Any]) -> Iterator[Problem]:
    """Check that the rules fit the target, as in validateRules. A value that is false or empty is ignored (GetOk)."""
    for name, value in rules.items():
        if not value or name.startswith("__") or not target:
            continue
        if (target == "push") is not (name in PUSH_RULES):
            rule = PUSH_RULES.get(name, "".join(f"_{c.lower()}" if c.isupper() else c for c in name))
            yield Problem(f"rules.{name}", f'rule "{rule}" is not valid for {target} target')
