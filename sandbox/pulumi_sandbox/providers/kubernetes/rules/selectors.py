"""Check label selectors, and match them with labels (k8s.io/apimachinery v0.36.0)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_sandbox.providers.kubernetes.fields import forbidden, has_unknown, invalid, label_values, required
from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner, items, labels
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import Unknown


def is_empty(given: Mapping[str, Any]) -> bool:
    return not given.get("matchLabels") and not given.get("matchExpressions")


def selector(path: str, given: Any) -> Iterator[Problem]:
    """Check a label selector (pkg/apis/meta/v1/validation/validation.go, ValidateLabelSelector)."""
    yield from labels(f"{path}.matchLabels", inner(given, "matchLabels"))
    for at, one in items(inner(given, "matchExpressions")):
        here, operator, values = f"{path}.matchExpressions[{at}]", one.get("operator"), one.get("values") or []
        if isinstance(operator, Unknown) or isinstance(values, Unknown):
            continue
        if operator in ("In", "NotIn"):
            if not values:
                yield required(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                yield forbidden(f"{here}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        else:
            yield invalid(f"{here}.operator", operator, "not a valid selector operator")
        yield from label_values(here, one.get("key"), values)


def matches(selector_input: Any, labels: Any) -> bool | None:
    """Return True if the selector matches the labels; None if a preview does not know all of both."""
    if (
        not isinstance(selector_input, Mapping)
        or not isinstance(labels, Mapping)
        or has_unknown(selector_input)
        or has_unknown(labels)
    ):
        return None
    if any(labels.get(name) != value for name, value in (selector_input.get("matchLabels") or {}).items()):
        return False
    return all(meets(one, labels) for one in selector_input.get("matchExpressions") or ())


def meets(requirement: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """Return True if the labels meet one requirement of a selector or of a node affinity.

    Source: pkg/labels/selector.go, Requirement.Matches.
    """
    key, values = str(requirement.get("key")), [str(one) for one in requirement.get("values") or ()]
    has_key = key in labels
    match requirement.get("operator"):
        case "In":
            return has_key and str(labels[key]) in values
        case "NotIn":
            return not has_key or str(labels[key]) not in values
        case "Exists":
            return has_key
        case "DoesNotExist":
            return not has_key
        case "Gt" | "Lt" as operator:
            try:
                one, other = int(str(labels[key])), int(values[0])
            except (KeyError, ValueError, IndexError):
                return False
            return one > other if operator == "Gt" else one < other
    return False
