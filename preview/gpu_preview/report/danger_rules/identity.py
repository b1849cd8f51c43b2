"""The rule `identity`: grants, trusts and rules that allow an identity more than before the change."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...diff.placeholders import is_unknown
from ...diff.value_pairs import ValuePair, leaves
from ...engine.states import Change, StackStates
from ...model import Finding
from ..danger_rule import IDENTITY, shortened
from . import policy_documents

Inputs = Mapping[str, Any]

_GOOGLE_GRANT = re.compile(r"gcp:.*iam(member|binding):.*", re.IGNORECASE)
# The basic roles owner and editor, and roles with "admin" in their name. Custom roles have a path before the name.
_BROAD_ROLE = re.compile(r"roles/(owner|editor)|(.*/)?roles/.*admin", re.IGNORECASE)
_BROAD_POLICIES = re.compile(r"arn:aws[\w-]*:iam::aws:policy/(.*/)?(AdministratorAccess|PowerUserAccess|IAMFullAccess)")
_PROVIDER = re.compile(r"gcp:iam/workloadIdentityPoolProvider:.*")
_BINDINGS = re.compile(r"kubernetes:rbac\.authorization\.k8s\.io/v1:(ClusterRoleBinding|RoleBinding)")
_ROLES = re.compile(r"kubernetes:rbac\.authorization\.k8s\.io/v1:(ClusterRole|Role)")
# kubernetes.io/docs/reference/access-authn-authz/rbac/, "Referring to subjects" and "API discovery roles".
_EVERYONE = {
    "system:anonymous": "every client of the API server",
    "system:unauthenticated": "every client of the API server",
    "system:authenticated": "every account of the cluster",
    "system:serviceaccounts": "every pod of the cluster",
}
_RULESET = re.compile(r"github:index/(repositoryRuleset|organizationRuleset):.*")
# The repositories of an organization that may use a runner group or a secret, the fewest first.
_VISIBILITY = ("selected", "private", "all")
# Properties of a pod or container that weaken its isolation from the node.
_ISOLATION_PROPERTIES = ("privileged", "hostNetwork", "hostPID", "hostIPC", "allowPrivilegeEscalation")


def check(change: Change, _stack_states: StackStates) -> Iterator[Finding]:
    texts = [*_deleted_ruleset(change)]
    if change.after is not None and change.ends != "is deleted":
        before: Inputs = change.before.inputs if change.before else {}
        texts += [text for rule in _RULES for text in rule(change.type, before, change.after.inputs)]
        texts += [text for pair in change.inputs if (text := _property(change, pair))]
    yield from (IDENTITY.found(change, f"{change.name} {text}") for text in dict.fromkeys(texts))


def _google(type_: str, before: Inputs, after: Inputs) -> Iterator[str]:
    """Yield grants on Google Cloud: a broad role for a new member, or any role for every identity of a pool."""
    if not _GOOGLE_GRANT.fullmatch(type_):
        return
    for role in policy_documents.texts(after.get("role")):
        new = sorted(_members(after) - (_members(before) if before.get("role") == role else set()))
        if new and _BROAD_ROLE.fullmatch(role):
            yield f"grants {shortened(role)} to {shortened(', '.join(new), 200)}"
    pools = {each for each in _members(after) - _members(before) if "/workloadIdentityPools/" in each}
    for every_identity in sorted(each for each in pools if each.endswith("/*")):
        yield f"grants a role to every identity of a pool: {shortened(every_identity, 200)}"


def _members(inputs: Inputs) -> set[str]:
    found = {*policy_documents.texts(inputs.get("member")), *policy_documents.texts(inputs.get("members"))}
    return {"a member known only after the update" if is_unknown(each) else each for each in found}


def _amazon(type_: str, before: Inputs, after: Inputs) -> Iterator[str]:
    """Yield grants on AWS: actions with a `*`, attached administrator policies, and wider trusts of a role."""
    if not type_.startswith("aws:"):
        return
    if new := sorted(policy_documents.broad(after) - policy_documents.broad(before)):
        yield f"allows {shortened(', '.join(new), 200)}"
    if new := sorted(_managed(after) - _managed(before)):
        yield f"attaches {shortened(', '.join(new), 200)}"
    trusts_before = policy_documents.trusts(before)
    for provider, trust in policy_documents.trusts(after).items():
        old = trusts_before.get(provider)
        if trust.is_wide and not (old and old.is_wide):
            condition = "no condition on sub any more" if old else "no condition on sub"
            condition = condition if not trust.subjects else f"sub like {shortened(', '.join(trust.subjects), 200)}"
            yield f"trusts {shortened(provider)} with {condition}: workflows of other repositories can assume the role"
        elif old and not old.is_wide and (new := trust.added_since(old)):
            yield f"newly trusts {shortened(', '.join(new), 200)} of {shortened(provider)}"


def _managed(inputs: Inputs) -> set[str]:
    arns = [*policy_documents.texts(inputs.get("policyArn")), *policy_documents.texts(inputs.get("managedPolicyArns"))]
    return {arn for arn in arns if _BROAD_POLICIES.fullmatch(arn)}


def _workload_identity(type_: str, before: Inputs, after: Inputs) -> Iterator[str]:
    """Yield changes of the condition under which Google Cloud accepts GitHub's tokens.

    The condition is an expression in CEL, which this module does not evaluate.
    """
    if not _PROVIDER.fullmatch(type_):
        return
    old, new = (_without_spaces(inputs.get("attributeCondition")) for inputs in (before, after))
    if is_unknown(new) or old == new:
        if not new and not before and isinstance(after.get("oidc"), Mapping):
            yield "accepts tokens of every repository: it has no attributeCondition"
    elif new in ("", "true"):
        yield "accepts tokens of every repository: its attributeCondition is removed"
    elif old:
        yield "accepts tokens by another attributeCondition: check if it accepts more tokens"


def _without_spaces(value: Any) -> str:
    return "".join(value.split()) if isinstance(value, str) else ""


def _kubernetes(type_: str, before: Inputs, after: Inputs) -> Iterator[str]:
    if _BINDINGS.fullmatch(type_) and _binds_admin(after) and not _binds_admin(before):
        yield "makes its subjects cluster-admin"
    if _ROLES.fullmatch(type_) and _every_verb(after) and not _every_verb(before):
        yield "allows every verb on every resource"
    if _BINDINGS.fullmatch(type_):
        yield from (f"binds {_EVERYONE[name]}: {name}" for name in sorted(_everyone(after) - _everyone(before)))


def _binds_admin(inputs: Inputs) -> bool:
    reference = inputs.get("roleRef")
    return isinstance(reference, Mapping) and reference.get("name") == "cluster-admin"


def _everyone(inputs: Inputs) -> set[str]:
    subjects = inputs.get("subjects")
    names = [each.get("name") for each in (subjects if isinstance(subjects, list) else []) if isinstance(each, Mapping)]
    return {name for name in names if isinstance(name, str) and name in _EVERYONE}


def _every_verb(inputs: Inputs) -> bool:
    rules = inputs.get("rules")
    return any(
        "*" in policy_documents.texts(rule.get("verbs")) and "*" in policy_documents.texts(rule.get("resources"))
        for rule in (rules if isinstance(rules, list) else [])
        if isinstance(rule, Mapping)
    )


_RULES: tuple[Callable[[str, Inputs, Inputs], Iterator[str]], ...] = (
    _google,
    _amazon,
    _workload_identity,
    _kubernetes,
)


def _property(change: Change, pair: ValuePair) -> str:
    """Return a text about a property of Kubernetes or GitHub that allows more than before, or ""."""
    path, before, after = shortened(pair.text, 120), pair.before, pair.after
    isolates = change.type.startswith("kubernetes:") and pair.key in _ISOLATION_PROPERTIES
    if isolates and after is True and before is not True:
        return f"weakens the isolation of a container: {path}"
    if not change.type.startswith("github:") or pair.path[-1] != pair.key:
        return ""
    lists = ("selectedRepositoryIds", "selectedWorkflows", "bypassActors")
    if pair.key in lists and change.before is not None and (added := _added(before, after)):
        return f"allows {added} more in {path}"
    if pair.key == "visibility" and _is_wider(before, after):
        return f"is available to {after} repositories (before: {before or 'none'})"
    if pair.key == "restrictedToWorkflows" and before is True and after is not True and not is_unknown(after):
        return "is no longer restricted to selected workflows"
    if pair.key == "enforcement" and before == "active" and after != "active" and not is_unknown(after):
        return "is no longer enforced: enforcement is not active"
    return ""


def _is_wider(before: Any, after: Any) -> bool:
    """Return True if more repositories may use the resource. A new resource counts only if all may use it."""
    if after not in _VISIBILITY or before not in (*_VISIBILITY, None):
        return False
    return after == "all" if before is None else _VISIBILITY.index(after) > _VISIBILITY.index(before)


def _added(before: Any, after: Any) -> int:
    """Return the number of new entries of a list. An unknown entry may be an old one, so it is not counted."""
    old = {leaves(each) for each in before} if isinstance(before, list) else set()
    new = [leaves(each) for each in after if not is_unknown(each)] if isinstance(after, list) else []
    return len([each for each in new if each not in old])


def _deleted_ruleset(change: Change) -> Iterator[str]:
    if _RULESET.fullmatch(change.type) and change.ends == "is deleted":
        yield "is deleted: its branches can be changed without its checks"
