"""Check updates that an API server refuses although pulumi-kubernetes does not plan a replacement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from pulumi_sandbox.providers.kubernetes.fields import forbidden, invalid, quantity
from pulumi_sandbox.providers.kubernetes.rules import pod_annotations, pod_updates, services
from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner
from pulumi_sandbox.providers.resource import Problem

# k8s.io/kubernetes v1.36.0: ValidateJobSpecUpdate (pkg/apis/batch), ValidatePriorityClassUpdate (pkg/apis/scheduling).
FIELDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("batch", "Job"): (
        "spec.backoffLimitPerIndex", "spec.completionMode", "spec.managedBy", "spec.podFailurePolicy",
        "spec.successPolicy",
    ),
}  # fmt: skip
# The message about the immutable fields of a claim (pkg/apis/core/validation, ValidatePersistentVolumeClaimUpdate).
CLAIM = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"


def check(group: str, kind: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Problem]:
    for path in FIELDS.get((group, kind), ()):
        new_value = inner(new, *path.split("."))
        if inner(old, *path.split(".")) != new_value:
            yield invalid(path, new_value, "field is immutable")
    match kind:
        case "ConfigMap" | "Secret" if old.get("immutable") is True:
            yield from _immutable_data(old, new)
        case "PersistentVolumeClaim" if _immutable_spec(old) != _immutable_spec(new):
            # The API's message also has a diff of both specs, with the field names of its Go source.
            yield forbidden("spec", CLAIM)
            mode = _immutable_spec(new)["volumeMode"]
            if mode != _immutable_spec(old)["volumeMode"]:
                yield invalid("volumeMode", mode, "field is immutable")
        case "PersistentVolumeClaim" if _size(new) < _size(old):
            # In the sandbox, the capacity of a volume is what its claim requested.
            yield forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")
        case "Pod":
            yield from pod_annotations.update(old, new)
            yield from pod_updates.update(old, new)
        case "PriorityClass" if old.get("value") != new.get("value"):
            yield forbidden("value", "may not be changed in an update.")
        case "Service":
            yield from services.update(old, new)


def _immutable_data(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Problem]:
    """Check an update of an immutable Secret or ConfigMap (ValidateSecretUpdate, ValidateConfigMapUpdate).

    An API server stores stringData in data.
    """
    detail = "field is immutable when `immutable` is set"
    if new.get("immutable") is not True:
        yield forbidden("immutable", detail)
    for name, fields in (("data", ("data", "stringData")), ("binaryData", ("binaryData",))):
        if any(old.get(field) != new.get(field) for field in fields):
            yield forbidden(name, detail)


def _immutable_spec(given: Mapping[str, Any]) -> dict[str, Any]:
    # The default of the mode is Filesystem (pkg/apis/core/v1/defaults.go).
    spec = {"volumeMode": "Filesystem", **(inner(given, "spec") or {})}
    return {name: value for name, value in spec.items() if name not in ("resources", "volumeAttributesClassName")}


def _size(given: Mapping[str, Any]) -> Fraction:
    return quantity(inner(given, "spec", "resources", "requests", "storage")) or Fraction(0)


def error_text(group: str, kind: str, name: str, problems: list[Problem]) -> str:
    """Return the error text of an invalid object (k8s.io/apimachinery v0.36.0, pkg/api/errors, NewInvalid)."""
    qualified = kind if group == "core" else f"{kind}.{group}"
    texts = [f"{one.path}: {one.text}" for one in problems]
    return f'{qualified} "{name}" is invalid: {texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"}'
