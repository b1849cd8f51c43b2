"""Check the changes of a pod that an API server refuses although pulumi-kubernetes does not plan a replacement.

Source: k8s.io/kubernetes v1.36.0, pkg/apis/core/validation/validation.go, ValidatePodUpdate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_sandbox.providers.kubernetes.fields import forbidden, invalid
from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner, items
from pulumi_sandbox.providers.resource import Problem

CHANGEABLE = ("activeDeadlineSeconds", "schedulingGates", "tolerations")
# The API's message also has a diff of both specs, with the field names of its Go source.
FIXED = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
# The defaults of fields that no replacement is planned for (pkg/apis/core/v1/defaults.go).
DEFAULTS = {"protocol": "TCP", "operator": "Equal"}


def update(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Problem]:
    before, after = (inner(one, "spec") or {} for one in (old, new))
    deadlines = [one.get("activeDeadlineSeconds") for one in (before, after)]
    if deadlines[0] is not None:
        if deadlines[1] is None:
            message = "must not update from a positive integer to nil value"
            yield invalid("spec.activeDeadlineSeconds", None, message)
        elif deadlines[1] > deadlines[0]:
            yield invalid("spec.activeDeadlineSeconds", deadlines[1], "must be less than or equal to previous value")
            return
    kept = [_without_seconds(one) for _, one in items(after.get("tolerations"))]
    if any(_without_seconds(one) not in kept for _, one in items(before.get("tolerations"))):
        yield forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
    gates = [one.get("name") for _, one in items(before.get("schedulingGates"))]
    for at, one in items(after.get("schedulingGates")):
        if one.get("name") not in gates:
            message = f"only deletion is allowed, but found new scheduling gate '{one.get('name')}'"
            yield forbidden(f"spec.schedulingGates[{at}].name", message)
    if _fixed(before) != _fixed(after):
        yield forbidden("spec", FIXED)


def _without_seconds(toleration: Mapping[str, Any]) -> dict[str, Any]:
    return {"operator": DEFAULTS["operator"], **toleration, "tolerationSeconds": None}


def _fixed(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a spec that no update may change."""
    fixed = {name: value for name, value in spec.items() if name not in CHANGEABLE}
    for kind in ("containers", "initContainers"):
        fixed[kind] = [{**one, "image": None} for _, one in items(spec.get(kind))]
    return fixed
