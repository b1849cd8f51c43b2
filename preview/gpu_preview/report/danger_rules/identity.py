"""`identity`: who may do more than before."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...diff.placeholders import is_unknown
from ...diff.value_pairs import ValuePair, leaves
from ...engine.states import Change, World
from ...model import Finding
from ..danger_rule import IDENTITY, shortened
from . import policy_documents

Inputs = Mapping[str, Any]

_GOOGLE_GRANT = re.compile(r"gcp:.*iam(member|binding):.*", re.IGNORECASE)
# Basic roles, and those that are admin of something; custom roles have a path before the name.
_BROAD_ROLE = re.compile(r"roles/(owner|editor)|(.*/)?roles/.*admin", re.IGNORECASE)
_BROAD_POLICIES = re.compile(r"arn:aws[\w-]*:iam::aws:policy/(.*/)?(AdministratorAccess|PowerUserAccess|IAMFullAccess)")
_PROVIDER = re.compile(r"gcp:iam/workloadIdentityPoolProvider:.*")
_BINDINGS = re.compile(r"kubernetes:rbac\.authorization\.k8s\.io/v1:(ClusterRoleBinding|RoleBinding)")
_ROLES = re.compile(r"kubernetes:rbac\.authorization\.k8s\.io/v1:(ClusterRole|Role)")
# kubernetes.io/docs/reference/access-authn-authz/rbac/, "Referring to subjects" and "API discovery roles".
_EVERYONE = {
    "system:anonymous": "whoever reaches the API server",
    "system:unauthenticated": "whoever reaches the API server",
    "system:authenticated": "whoever has any account of the cluster",
    "system:serviceaccounts": "every pod of the cluster",
}
_RULESET = re.compile(r"github:index/(repositoryRuleset|organizationRuleset):.*")
# How many may use something, the fewest first.
_VISIBILITY = ("selected", "private", "all")
_POD = ("privileged", "hostNetwork", "hostPID", "hostIPC", "allowPrivilegeEscalation")


def check(change: Change, _world: World) -> Iterator[Finding]:
    texts = [*_gone(change)]
    if change.after is not None and change.ends != "is deleted":
        before: Inputs = change.before.inputs if change.before else {}
        texts += [text for reader in _READERS for text in reader(change.type, before, change.after.inputs)]
        texts += [text for pair in change.inputs if (text := _property(change, pair))]
    yield from (IDENTITY.found(change, f"{change.name} {text}") for text in dict.fromkeys(texts))


def _google(type_: str, before: Inputs, after: Inputs) -> Iterator[str]:
    """A grant of a basic or an admin's role, to somebody who did not have it."""
    if not _GOOGLE_GRANT.fullmatch(type_):
        return
    for role in policy_documents.texts(after.get("role")):
        new = sorted(_members(after) - (_members(before) if before.get("role") == role else set()))
        if new and _BROAD_ROLE.fullmatch(role):
            yield f"grants {shortened(role)} to {shortened(', '.join(new), 200)}"
    pools = {each for each in _members(after) - _members(before) if "/workloadIdentityPools/" in each}
    for whole in sorted(each for each in pools if each.endswith("/*")):
        yield f"lets every identity of a pool in: {shortened(whole, 200)}"


def _members(inputs: Inputs) -> set[str]:
    found = {*policy_documents.texts(inputs.get("member")), *policy_documents.texts(inputs.get("members"))}
    return {"somebody not known yet" if is_unknown(each) else each for each in found}


def _amazon(type_: str, before: Inputs, after: Inputs) -> Iterator[str]:
    """Actions with a `*`, policies of administrators, and whom a role trusts."""
    if not type_.startswith("aws:"):
        return
    if new := sorted(policy_documents.broad(after) - policy_documents.broad(before)):
        yield f"allows {shortened(', '.join(new), 200)}"
    if new := sorted(_managed(after) - _managed(before)):
        yield f"attaches {shortened(', '.join(new), 200)}"
    old = policy_documents.trusts(before)
    for provider, trust in policy_documents.trusts(after).items():
        known = old.get(provider)
        if trust.everybody and not (known and known.everybody):
            condition = "no condition on sub any more" if known else "no condition on sub"
            condition = condition if not trust.subjects else f"sub like {shortened(', '.join(trust.subjects), 200)}"
            yield f"trusts {shortened(provider)} with {condition}: workflows of other repositories can take it on"
        elif known and not known.everybody and (new := trust.added_since(known)):
            yield f"trusts {shortened(', '.join(new), 200)} of {shortened(provider)}, which it did not"


def _managed(inputs: Inputs) -> set[str]:
    arns = [*policy_documents.texts(inputs.get("policyArn")), *policy_documents.texts(inputs.get("managedPolicyArns"))]
    return {arn for arn in arns if _BROAD_POLICIES.fullmatch(arn)}


def _workload_identity(type_: str, before: Inputs, after: Inputs) -> Iterator[str]:
    """Google's trust in GitHub's tokens: what lets a token in is a condition in a language that nothing here reads."""
    if not _PROVIDER.fullmatch(type_):
        return
    was, now = (_squeezed(inputs.get("attributeCondition")) for inputs in (before, after))
    if is_unknown(now) or was == now:
        if not now and not before and isinstance(after.get("oidc"), Mapping):
            yield "takes tokens of every repository: it has no attributeCondition"
    elif now in ("", "true"):
        yield "takes tokens of every repository: its attributeCondition is gone"
    elif was:
        yield "takes tokens by another attributeCondition: read whether it lets in more"


def _squeezed(value: Any) -> str:
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


_READERS: tuple[Callable[[str, Inputs, Inputs], Iterator[str]], ...] = (
    _google,
    _amazon,
    _workload_identity,
    _kubernetes,
)


def _property(change: Change, pair: ValuePair) -> str:
    """What one property tells."""
    where, before, after = shortened(pair.text, 120), pair.before, pair.after
    if change.type.startswith("kubernetes:") and pair.key in _POD and after is True and before is not True:
        return f"lets a container be more than a container: {where}"
    if not change.type.startswith("github:") or pair.path[-1] != pair.key:
        return ""
    lists = ("selectedRepositoryIds", "selectedWorkflows", "bypassActors")
    if pair.key in lists and change.before is not None and (more := _new(before, after)):
        return f"lets in {more} more: {where}"
    if pair.key == "visibility" and _wider(before, after):
        return f"is there for {after} repositories, and was for {before or 'none'}"
    if pair.key == "restrictedToWorkflows" and before is True and after is not True and not is_unknown(after):
        return "is restricted to no workflows any more"
    if pair.key == "enforcement" and before == "active" and after != "active" and not is_unknown(after):
        return "holds nobody any more: enforcement is not active"
    return ""


def _wider(before: Any, after: Any) -> bool:
    """Of who may use runners or secrets. Something new is wide only where it is there for all."""
    if after not in _VISIBILITY or before not in (*_VISIBILITY, None):
        return False
    return after == "all" if before is None else _VISIBILITY.index(after) > _VISIBILITY.index(before)


def _new(before: Any, after: Any) -> int:
    """How many parts of a list were not in it. What is not known yet may be what was there, and is not counted."""
    old = {leaves(each) for each in before} if isinstance(before, list) else set()
    new = [leaves(each) for each in after if not is_unknown(each)] if isinstance(after, list) else []
    return len([each for each in new if each not in old])


def _gone(change: Change) -> Iterator[str]:
    if _RULESET.fullmatch(change.type) and change.ends == "is deleted":
        yield "is deleted: the branches it held can be changed without its checks"
