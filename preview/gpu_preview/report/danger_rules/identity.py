"""The rule `identity`: grants, trusts and rules that allow an identity more than before the change."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...diff.value_pairs import ValuePair, decoded, leaves, pairs
from ...diff.values import is_unknown
from ...engine.states import Change, StackStates
from ...model import Finding
from ..danger_rule import IDENTITY, shortened

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
# The container modes of GitHub's scale set chart in which runners may create pods and read Secrets
# (actions/actions-runner-controller: charts/gha-runner-scale-set/templates/kube_mode_role.yaml).
_JOB_PODS = ("kubernetes", "kubernetes-novolume")
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
    for role in texts(after.get("role")):
        new = sorted(_members(after) - (_members(before) if before.get("role") == role else set()))
        if new and _BROAD_ROLE.fullmatch(role):
            yield f"grants {shortened(role)} to {shortened(', '.join(new), 200)}"
    pools = {each for each in _members(after) - _members(before) if "/workloadIdentityPools/" in each}
    for every_identity in sorted(each for each in pools if each.endswith("/*")):
        yield f"grants a role to every identity of a pool: {shortened(every_identity, 200)}"


def _members(inputs: Inputs) -> set[str]:
    found = {*texts(inputs.get("member")), *texts(inputs.get("members"))}
    return {"a member known only after the update" if is_unknown(each) else each for each in found}


def _amazon(type_: str, before: Inputs, after: Inputs) -> Iterator[str]:
    """Yield grants on AWS: actions with a `*`, attached administrator policies, and wider trusts of a role."""
    if not type_.startswith("aws:"):
        return
    if new := sorted(broad(after) - broad(before)):
        yield f"allows {shortened(', '.join(new), 200)}"
    if new := sorted(_managed(after) - _managed(before)):
        yield f"attaches {shortened(', '.join(new), 200)}"
    trusts_before = trusts(before)
    for provider, trust in trusts(after).items():
        old = trusts_before.get(provider)
        if trust.is_wide and not (old and old.is_wide):
            condition = "no condition on sub any more" if old else "no condition on sub"
            condition = condition if not trust.subjects else f"sub like {shortened(', '.join(trust.subjects), 200)}"
            yield f"trusts {shortened(provider)} with {condition}: workflows of other repositories can assume the role"
        elif old and not old.is_wide and (new := trust.added_since(old)):
            yield f"newly trusts {shortened(', '.join(new), 200)} of {shortened(provider)}"


def _managed(inputs: Inputs) -> set[str]:
    arns = [*texts(inputs.get("policyArn")), *texts(inputs.get("managedPolicyArns"))]
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
    if type_ == "kubernetes:helm.sh/v3:Release" and _has_job_pods(after) and not _has_job_pods(before):
        yield "lets jobs create pods, so a job can read every Secret of the namespace, also the key of the GitHub App"
    if _BINDINGS.fullmatch(type_):
        yield from (f"binds {_EVERYONE[name]}: {name}" for name in sorted(_everyone(after) - _everyone(before)))


def _binds_admin(inputs: Inputs) -> bool:
    reference = inputs.get("roleRef")
    return isinstance(reference, Mapping) and reference.get("name") == "cluster-admin"


def _has_job_pods(inputs: Inputs) -> bool:
    values = inputs.get("values")
    mode = values.get("containerMode") if isinstance(values, Mapping) else None
    return isinstance(mode, Mapping) and mode.get("type") in _JOB_PODS


def _everyone(inputs: Inputs) -> set[str]:
    subjects = inputs.get("subjects")
    names = [each.get("name") for each in (subjects if isinstance(subjects, list) else []) if isinstance(each, Mapping)]
    return {name for name in names if isinstance(name, str) and name in _EVERYONE}


def _every_verb(inputs: Inputs) -> bool:
    rules = inputs.get("rules")
    return any(
        "*" in texts(rule.get("verbs")) and "*" in texts(rule.get("resources"))
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
