"""Check the API server's rules for a ResourceQuota.

Source: k8s.io/kubernetes v1.36.0, pkg/apis/core/validation/validation.go, ValidateResourceQuotaSpec.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_sandbox.providers.kubernetes.fields import has_unknown, invalid, required
from pulumi_sandbox.providers.kubernetes.rules.pod_rules import amount, inner, items, pairs
from pulumi_sandbox.providers.kubernetes.rules.resources import COMPUTE, QUOTA, quota_name
from pulumi_sandbox.providers.resource import Problem

PAIRS = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
ONLY_EXISTS = ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity")
SCOPES = (*ONLY_EXISTS, "PriorityClass", "VolumeAttributesClass")
MUST_EXIST = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
# pkg/apis/core/helper/helpers.go, IsResourceQuotaScopeValidForResource.
PODS = ("pods", *COMPUTE, *(f"{kind}.{name}" for kind in ("limits", "requests") for name in COMPUTE))
CLAIMS = ("persistentvolumeclaims", "requests.storage")


def quota(given: Mapping[str, Any]) -> Iterator[Problem]:
    hard = inner(given, "spec", "hard")
    for name, value in pairs(hard):
        yield from quota_name(f"spec.hard[{name}]", name)
        yield from amount(f"spec.hard[{name}]", name, value)
    spec = given.get("spec")
    if not isinstance(spec, Mapping) or has_unknown(spec):
        return
    scopes = spec.get("scopes") or []
    for scope in scopes:
        if scope not in SCOPES:
            yield invalid("spec.scopes", scopes, "unsupported scope")
        for _ in _unfit(scope, hard):
            yield invalid("spec.scopes", scopes, "unsupported scope applied to resource")
    yield from _conflicts("spec.scopes", scopes, scopes)
    expressions = inner(spec, "scopeSelector", "matchExpressions") or []
    path = "spec.scopeSelector.matchExpressions"
    for _, one in items(expressions):
        yield from _expression(path, one)
        for _ in _unfit(one.get("scopeName"), hard):
            yield invalid(path, spec["scopeSelector"], "unsupported scope applied to resource")
    yield from _conflicts(path, [one.get("scopeName") for _, one in items(expressions)], scopes)


def _unfit(scope: Any, hard: Any) -> Iterator[str]:
    """Yield the limits that a scope cannot have."""
    allowed = {"BestEffort": ("pods",), "VolumeAttributesClass": CLAIMS}.get(scope, PODS)
    for name, _ in pairs(hard):
        if name in QUOTA and scope in SCOPES and name not in allowed:
            yield name


def _conflicts(path: str, chosen: list[Any], shown: list[Any]) -> Iterator[Problem]:
    for pair in PAIRS:
        if set(pair) <= set(chosen):
            yield invalid(path, shown, "conflicting scopes")


def _expression(path: str, one: Mapping[str, Any]) -> Iterator[Problem]:
    scope, operator, values = one.get("scopeName"), one.get("operator"), one.get("values") or []
    if scope not in SCOPES:
        yield invalid(f"{path}.scopeName", scope, "unsupported scope")
    if scope in ONLY_EXISTS and operator != "Exists":
        yield invalid(f"{path}.operator", operator, MUST_EXIST)
    if operator in ("In", "NotIn"):
        if not values:
            message = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            yield required(f"{path}.values", message)
    elif operator not in ("Exists", "DoesNotExist"):
        yield invalid(f"{path}.operator", operator, "not a valid selector operator")
    elif values:
        message = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
        yield invalid(f"{path}.values", values, message)
