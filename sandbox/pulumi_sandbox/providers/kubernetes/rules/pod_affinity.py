"""Check the API server's rules for the affinity of pods and for security profiles.

Source: k8s.io/kubernetes v1.36.0, pkg/apis/core/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_sandbox.providers.kubernetes.fields import (
    dns_label,
    dns_subdomain,
    forbidden,
    has_unknown,
    invalid,
    label_key,
    required,
    unsupported,
)
from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner, items
from pulumi_sandbox.providers.kubernetes.rules.selectors import selector
from pulumi_sandbox.providers.resource import Problem

REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
WEIGHT = "must be in the range 1-100"
APPARMOR = ("Localhost", "RuntimeDefault", "Unconfined")
PROFILE_MOST = 4095


def pod(path: str, spec: Any, own_labels: Any = None) -> Iterator[Problem]:
    """Check the affinity, the security profiles and the images of a pod with these labels, or of a template."""
    if not isinstance(spec, Mapping) or has_unknown(spec):
        return
    here, own_labels = f"{path}.affinity", {} if has_unknown(own_labels) else own_labels or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        given = inner(spec, "affinity", kind)
        for at, term in items(inner(given, REQUIRED)):
            yield from _term(f"{here}.{kind}.{REQUIRED}[{at}]", term, own_labels)
        for at, one in items(inner(given, PREFERRED)):
            yield from _weight(f"{here}.{kind}.{PREFERRED}[{at}]", one)
            weighted = one.get("podAffinityTerm") or {}
            yield from _term(f"{here}.{kind}.{PREFERRED}[{at}].podAffinityTerm", weighted, own_labels)
    nodes = inner(spec, "affinity", "nodeAffinity")
    for at, term in items(inner(nodes, REQUIRED, "nodeSelectorTerms")):
        yield from _node_fields(f"{here}.nodeAffinity.{REQUIRED}.nodeSelectorTerms[{at}]", term)
    for at, one in items(inner(nodes, PREFERRED)):
        yield from _weight(f"{here}.nodeAffinity.{PREFERRED}[{at}]", one)
        yield from _node_fields(f"{here}.nodeAffinity.{PREFERRED}[{at}].preference", one.get("preference") or {})
    yield from _apparmor(f"{path}.securityContext.appArmorProfile", inner(spec, "securityContext", "appArmorProfile"))
    for kind in ("containers", "initContainers"):
        for at, one in items(spec.get(kind)):
            profile = inner(one, "securityContext", "appArmorProfile")
            yield from _apparmor(f"{path}.{kind}[{at}].securityContext.appArmorProfile", profile)
            image = one.get("image")
            if isinstance(image, str) and image and image.strip() != image:
                yield invalid(f"{path}.{kind}[{at}].image", image, "must not have leading or trailing whitespace")


def alone(given: Mapping[str, Any]) -> Iterator[Problem]:
    """Check what is only about pods, and not about the templates of pods."""
    spec = given.get("spec")
    if inner(spec, "schedulingGates") and inner(spec, "nodeName"):
        yield forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
    name = inner(given, "metadata", "name")
    volumes = list(items(inner(spec, "volumes")))
    ephemeral = {f"{name}-{one.get('name')}" for _, one in volumes if one.get("ephemeral")}
    for at, one in volumes:
        claim = inner(one, "persistentVolumeClaim", "claimName")
        if claim in ephemeral:
            message = "must not reference a PVC that gets created for an ephemeral volume"
            yield invalid(f"spec.volumes[{at}].persistentVolumeClaim.claimName", claim, message)
        claim = f"{name}-{one.get('name')}"
        if one.get("ephemeral"):
            for message in dns_subdomain(claim):
                yield invalid(f"spec.volumes[{at}].name", one.get("name"), f'PVC name "{claim}": {message}')


def _weight(path: str, given: Mapping[str, Any]) -> Iterator[Problem]:
    weight = given.get("weight")
    if isinstance(weight, int) and not 1 <= weight <= 100:
        yield invalid(f"{path}.weight", weight, WEIGHT)


def _term(path: str, term: Mapping[str, Any], own_labels: Mapping[str, Any]) -> Iterator[Problem]:
    for name in ("labelSelector", "namespaceSelector"):
        yield from selector(f"{path}.{name}", term.get(name))
    for name in term.get("namespaces") or ():
        yield from (invalid(f"{path}.namespace", name, message) for message in dns_label(name))
    yield from _label_keys(path, term, own_labels)
    key = term.get("topologyKey") or ""
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    yield from (invalid(f"{path}.topologyKey", key, message) for message in label_key(key))


def _label_keys(path: str, term: Mapping[str, Any], own_labels: Mapping[str, Any]) -> Iterator[Problem]:
    """Check the keys of a term (ValidateMatchLabelKeysAndMismatchLabelKeys)."""
    matching, other = term.get("matchLabelKeys") or [], term.get("mismatchLabelKeys") or []
    chosen = term.get("labelSelector")
    for name, keys in (("matchLabelKeys", matching), ("mismatchLabelKeys", other)):
        if keys and chosen is None:
            yield forbidden(f"{path}.{name}", "must not be specified when labelSelector is not set")
            continue
        for at, key in enumerate(keys):
            yield from (invalid(f"{path}.{name}[{at}]", key, message) for message in label_key(key))
    # The API server adds an expression for each label of the pod that the term names.
    added = [key for key in (*matching, *other) if key in own_labels]
    seen = {*(inner(chosen, "matchLabels") or {})}
    for key in [*(one.get("key") for _, one in items(inner(chosen, "matchExpressions"))), *added]:
        if key in matching and key in seen:
            where = f"{path}[{matching.index(key)}]"
            yield invalid(where, key, "exists in both matchLabelKeys and labelSelector")
        seen.add(key)
    for at, key in enumerate(matching):
        if key in other:
            yield invalid(f"{path}.matchLabelKeys[{at}]", key, "exists in both matchLabelKeys and mismatchLabelKeys")


def _node_fields(path: str, term: Mapping[str, Any]) -> Iterator[Problem]:
    for at, one in items(term.get("matchFields")):
        here, operator, key = f"{path}.matchFields[{at}]", one.get("operator"), one.get("key")
        values = one.get("values") or []
        if operator not in ("In", "NotIn"):
            yield invalid(f"{here}.operator", operator, "not a valid selector operator")
        elif len(values) != 1:
            message = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            yield required(f"{here}.values", message)
        if key != "metadata.name":
            yield invalid(f"{here}.key", key, "not a valid field selector key")
            continue
        for place, value in enumerate(values):
            yield from (invalid(f"{here}.values[{place}]", value, message) for message in dns_subdomain(value))


def _apparmor(path: str, given: Any) -> Iterator[Problem]:
    """Check an AppArmor profile (ValidateAppArmorProfileField)."""
    if given is None:
        return
    kind, profile = given.get("type") or "", given.get("localhostProfile")
    here = f"{path}.localhostProfile"
    if kind == "Localhost":
        if profile is None:
            yield required(here, "must be set when AppArmor type is Localhost")
        elif profile.strip() != profile:
            yield invalid(here, profile, "must not be padded with whitespace")
        elif not profile:
            yield required(here, "must be set when AppArmor type is Localhost")
        if profile and len(profile) > PROFILE_MOST:
            yield Problem(here, f"Too long: may not be more than {PROFILE_MOST} bytes")
    elif profile is not None:
        yield invalid(here, profile, "can only be set when AppArmor type is Localhost")
    if not kind:
        yield required(f"{path}.type", "type is required when appArmorProfile is set")
    elif kind not in APPARMOR:
        yield unsupported(f"{path}.type", kind, APPARMOR)
