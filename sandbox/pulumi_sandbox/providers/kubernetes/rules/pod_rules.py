"""Check the API server's rules for pods that no schema contains.

Source: k8s.io/kubernetes v1.36.0, pkg/apis/core/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from pulumi_sandbox.providers.kubernetes.fields import (
    canonical,
    dns_label,
    duplicate,
    forbidden,
    invalid,
    label_key,
    label_value,
    label_values,
    not_found,
    quantity,
    required,
    unsupported,
)
from pulumi_sandbox.providers.kubernetes.rules.resources import (
    is_extended,
    is_native,
    is_overcommitted,
    is_whole,
    resource_name,
)
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import Unknown

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
POLICIES = {
    "imagePullPolicy": ("Always", "IfNotPresent", "Never"),
    "terminationMessagePolicy": ("File", "FallbackToLogsOnError"),
}


def items(value: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the index and the object of each list element; unknown elements of a preview are left out."""
    for at, one in enumerate(value if isinstance(value, list) else ()):
        if isinstance(one, Mapping):
            yield at, one


def pairs(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the entries of a map with a known value."""
    for name, one in value.items() if isinstance(value, Mapping) else ():
        if not isinstance(one, Unknown):
            yield name, one


def inner(value: Any, *path: str) -> Any:
    """Return the value at a path of nested maps; None if the path does not exist."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def labels(path: str, given: Any) -> Iterator[Problem]:
    """Check labels (apimachinery, apis/meta/v1/validation, ValidateLabels). Problems have the path of the map."""
    for name, value in pairs(given):
        yield from (invalid(path, name, message) for message in label_key(name))
        if isinstance(value, str):
            yield from (invalid(path, value, message) for message in label_value(value))


def annotation_names(path: str, given: Any) -> Iterator[Problem]:
    """Check the names of annotations.

    Source: k8s.io/apimachinery v0.36.0, pkg/api/validation/objectmeta.go, ValidateAnnotations.
    """
    for name, _ in pairs(given):
        yield from (invalid(path, name, message) for message in label_key(name.lower()))


def template(path: str, given: Any) -> Iterator[Problem]:
    """Check a pod template. The API omits `metadata` from the paths of its labels and annotations."""
    if isinstance(given, Unknown):
        return
    yield from labels(f"{path}.labels", inner(given, "metadata", "labels"))
    yield from annotation_names(f"{path}.annotations", inner(given, "metadata", "annotations"))
    yield from spec(f"{path}.spec", inner(given, "spec"))


def spec(path: str, given: Any) -> Iterator[Problem]:
    """Check a pod spec. A missing spec counts as empty, so its containers are missing."""
    if isinstance(given, Unknown):
        return
    given = given or {}
    volumes = _volumes(given)
    names: set[str] = set()
    for kind in ("containers", "initContainers"):
        listed = given.get(kind)
        if kind == "containers" and not listed and not isinstance(listed, Unknown):
            yield required(f"{path}.containers")
        for at, one in items(listed):
            yield from _container(f"{path}.{kind}[{at}]", one, names, volumes)
    yield from labels(f"{path}.nodeSelector", given.get("nodeSelector"))
    yield from tolerations(f"{path}.tolerations", given.get("tolerations"))
    yield from _node_affinity(f"{path}.affinity.nodeAffinity", inner(given, "affinity", "nodeAffinity"))
    policy = given.get("restartPolicy")
    if isinstance(policy, str) and policy not in ("Always", "OnFailure", "Never"):
        yield unsupported(f"{path}.restartPolicy", policy, ("Always", "OnFailure", "Never"))
    for field in ("hostname", "subdomain"):
        name = given.get(field)
        if isinstance(name, str) and name:
            yield from (invalid(f"{path}.{field}", name, message) for message in dns_label(name))
    deadline = given.get("activeDeadlineSeconds")
    if isinstance(deadline, int) and not 1 <= deadline <= 2**31 - 1:
        yield invalid(f"{path}.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive")


def _volumes(given: Mapping[str, Any]) -> set[str] | None:
    """Return the names of a pod's volumes; None if a preview does not know all of them."""
    listed = given.get("volumes") or []
    if isinstance(listed, Unknown) or any(not isinstance(inner(one, "name"), str) for one in listed):
        return None
    return {one["name"] for one in listed}


def _container(path: str, given: Mapping[str, Any], names: set[str], volumes: set[str] | None) -> Iterator[Problem]:
    name = given.get("name")
    if name == "":
        yield required(f"{path}.name")
    elif isinstance(name, str):
        yield from (invalid(f"{path}.name", name, message) for message in dns_label(name))
        if name in names:
            yield duplicate(f"{path}.name", name)
        names.add(name)
    if given.get("image") in (None, ""):
        yield required(f"{path}.image")
    for field, supported in POLICIES.items():
        value = given.get(field)
        if isinstance(value, str) and value not in supported:
            yield unsupported(f"{path}.{field}", value, supported)
    for at, one in items(given.get("volumeMounts")):
        volume = one.get("name")
        if isinstance(volume, str) and volumes is not None and volume not in volumes:
            yield not_found(f"{path}.volumeMounts[{at}].name", volume)
    yield from resources(f"{path}.resources", given.get("resources"))


def resources(path: str, given: Any) -> Iterator[Problem]:
    """Check resource requirements (validateResourceRequirements).

    GPUs cannot be overcommitted, so a request must equal the limit and be a whole number.
    """
    limits, requests = inner(given, "limits") or {}, inner(given, "requests") or {}
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, value in pairs(amounts):
            yield from container_resource(f"{path}.{kind}[{name}]", name)
            yield from amount(f"{path}.{kind}[{name}]", name, value)
    if isinstance(limits, Unknown) or isinstance(requests, Unknown):
        return
    for name, value in pairs(requests):
        requested, limit, limit_text = quantity(value), quantity(limits.get(name)), canonical(limits.get(name))
        if isinstance(limits.get(name), Unknown) or requested is None:
            continue
        if name not in limits:
            if not is_overcommitted(name):
                yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        elif limit is not None and requested != limit and not is_overcommitted(name):
            yield invalid(f"{path}.requests", canonical(value), f"must be equal to {name} limit of {limit_text}")
        elif limit is not None and requested > limit:
            yield invalid(
                f"{path}.requests", canonical(value), f"must be less than or equal to {name} limit of {limit_text}"
            )


def container_resource(path: str, name: str) -> Iterator[Problem]:
    """Check the name of a container's resource (validateContainerResourceName)."""
    yield from resource_name(path, name)
    if "/" not in name:
        if name not in ("cpu", "memory", "ephemeral-storage") and not name.startswith("hugepages-"):
            yield invalid(path, name, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        yield invalid(path, name, "doesn't follow extended resource name standard")


def amount(path: str, name: str, value: Any) -> Iterator[Problem]:
    """Check an amount of a resource (ValidateResourceQuantityValue)."""
    parsed: Fraction | None = quantity(value)
    if parsed is None:
        return
    if parsed < 0:
        yield invalid(path, canonical(value), "must be greater than or equal to 0")
    if is_whole(name) and parsed.denominator != 1:
        yield invalid(path, canonical(value), "must be an integer")


def tolerations(path: str, given: Any) -> Iterator[Problem]:
    for at, one in items(given):
        here = f"{path}[{at}]"
        key, operator, value = (one.get(name) or "" for name in ("key", "operator", "value"))
        effect, seconds = one.get("effect") or "", one.get("tolerationSeconds")
        if any(isinstance(field, Unknown) for field in (key, operator, value, effect, seconds)):
            continue
        if key:
            yield from (invalid(f"{here}.key", key, message) for message in label_key(key))
        elif operator != "Exists":
            yield invalid(
                f"{here}.operator",
                operator,
                'operator must be Exists when `key` is empty, which means "match all values and all keys"',
            )
        if seconds is not None and effect != "NoExecute":
            yield invalid(f"{here}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
        if operator in ("", "Equal"):
            yield from (invalid(f"{here}.operator", value, message) for message in label_value(str(value)))
        elif operator == "Exists":
            if value:
                yield invalid(f"{here}.operator", value, "value must be empty when `operator` is 'Exists'")
        else:
            # Lt and Gt require a feature gate, off by default (TaintTolerationComparisonOperators, alpha in 1.36).
            more = ("Lt", "Gt") if operator in ("Lt", "Gt") else ()
            yield unsupported(f"{here}.operator", operator, ("Equal", "Exists", *more))
        if effect and effect not in EFFECTS:
            yield unsupported(f"{here}.effect", effect, EFFECTS)


def _node_affinity(path: str, given: Any) -> Iterator[Problem]:
    wanted = inner(given, "requiredDuringSchedulingIgnoredDuringExecution")
    here = f"{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    if isinstance(wanted, Mapping) and not wanted.get("nodeSelectorTerms"):
        yield required(here, "must have at least one node selector term")
    for at, term in items(inner(wanted, "nodeSelectorTerms")):
        yield from _expressions(f"{here}[{at}].matchExpressions", term.get("matchExpressions"))
    here = f"{path}.preferredDuringSchedulingIgnoredDuringExecution"
    for at, term in items(inner(given, "preferredDuringSchedulingIgnoredDuringExecution")):
        yield from _expressions(
            f"{here}[{at}].preference.matchExpressions", inner(term, "preference", "matchExpressions")
        )


def _expressions(path: str, given: Any) -> Iterator[Problem]:
    """Check one requirement of a node selector (ValidateNodeSelectorRequirement)."""
    for at, one in items(given):
        here, operator, values = f"{path}[{at}]", one.get("operator"), one.get("values") or []
        if isinstance(operator, Unknown) or isinstance(values, Unknown):
            continue
        match operator:
            case "In" | "NotIn":
                if not values:
                    yield required(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'")
            case "Exists" | "DoesNotExist":
                if values:
                    yield forbidden(
                        f"{here}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                    )
            case "Gt" | "Lt":
                if len(values) != 1:
                    yield required(f"{here}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
            case _:
                yield invalid(f"{here}.operator", operator, "not a valid selector operator")
        yield from label_values(here, one.get("key"), values)
