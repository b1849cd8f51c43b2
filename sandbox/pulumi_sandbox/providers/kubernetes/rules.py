"""Check the API server's rules that no schema contains, for objects that the components create.

Each rule guards against a mistake that a user's choice can cause: a long name, a key that is no label, a share of a
GPU, too much data. The objects of the components themselves are applied to a real API server (tests/control_plane).
Source: k8s.io/kubernetes v1.36.0, pkg/apis/{core,batch}/validation/validation.go.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_sandbox.providers.kubernetes.fields import (
    LABEL_MOST,
    dns_label,
    dns_subdomain,
    format_quantity,
    invalid,
    label_key,
    labels,
    quantity,
    required,
    too_long,
)
from pulumi_sandbox.providers.kubernetes.objects import inner, items, pairs
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import Unknown

# The maximum size of all values of a ConfigMap or a Secret in bytes (core/types.go, MaxSecretSize).
DATA_MOST = 1024 * 1024
DATA_FIELDS = {"ConfigMap": ("data", "binaryData"), "Secret": ("stringData", "data")}


def check(group: str, kind: str, given: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems of an object that its schema accepts."""
    yield from _metadata(group, kind, given.get("metadata"))
    match group, kind:
        case ("batch", "Job") | ("apps", "DaemonSet"):
            yield from _template("spec.template", inner(given, "spec", "template"))
            if kind == "Job":
                yield from _job(given)
        case "core", "ConfigMap" | "Secret":
            yield from _data(kind, given)


def _metadata(group: str, kind: str, given: Any) -> Iterator[Problem]:
    """Check names and labels (ValidateObjectMeta). For most kinds, the name must be a DNS subdomain."""
    name, namespace = inner(given, "name"), inner(given, "namespace")
    # A role's name may contain a colon.
    if isinstance(name, str) and name and group != "rbac.authorization.k8s.io":
        rule = dns_label if kind in ("Namespace", "Service") else dns_subdomain
        yield from (invalid("metadata.name", name, message) for message in rule(name))
    if isinstance(namespace, str) and namespace:
        yield from (invalid("metadata.namespace", namespace, message) for message in dns_label(namespace))
    yield from labels("metadata.labels", inner(given, "labels"))


def _job(given: Mapping[str, Any]) -> Iterator[Problem]:
    """Check the name of a Job. Its pods have the name in two labels, and an index and the name as hostname."""
    name, spec = inner(given, "metadata", "name"), given.get("spec")
    if not isinstance(name, str):
        return
    if len(name) > LABEL_MOST:
        yield invalid("spec.template.labels", name, too_long(LABEL_MOST))
    completions = inner(spec, "completions")
    if inner(spec, "completionMode") == "Indexed" and isinstance(completions, int) and completions > 0:
        host = f"{name}-{completions - 1}"
        if any(dns_label(host)):
            yield invalid("metadata.name", name, f"will not able to create pod with invalid DNS label: {host}")


def _template(path: str, given: Any) -> Iterator[Problem]:
    """Check a pod template. The API omits `metadata` from the path of its labels."""
    spec = inner(given, "spec")
    yield from labels(f"{path}.labels", inner(given, "metadata", "labels"))
    yield from labels(f"{path}.spec.nodeSelector", inner(spec, "nodeSelector"))
    listed = inner(spec, "volumes") or []
    is_known = isinstance(listed, list) and all(isinstance(inner(one, "name"), str) for one in listed)
    volumes = {one["name"] for one in listed} if is_known else None
    for kind in ("containers", "initContainers"):
        for at, one in items(inner(spec, kind)):
            yield from _container(f"{path}.spec.{kind}[{at}]", one, volumes)


def _container(path: str, given: Mapping[str, Any], volumes: set[str] | None) -> Iterator[Problem]:
    if given.get("image") in (None, ""):
        yield required(f"{path}.image")
    for at, one in items(given.get("volumeMounts")):
        volume = one.get("name")
        if isinstance(volume, str) and volumes is not None and volume not in volumes:
            yield Problem(f"{path}.volumeMounts[{at}].name", f'Not found: "{volume}"')
    yield from _resources(f"{path}.resources", given.get("resources"))


def _resources(path: str, given: Any) -> Iterator[Problem]:
    """Check resources of device plugins, such as GPUs: whole numbers, with a limit that equals the request."""
    limits, requests = inner(given, "limits") or {}, inner(given, "requests") or {}
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, value in pairs(amounts):
            amount = quantity(value)
            if is_extended(name) and amount is not None and amount.denominator != 1:
                yield invalid(f"{path}.{kind}[{name}]", _text(value), "must be an integer")
    if isinstance(limits, Unknown) or isinstance(requests, Unknown):
        return
    for name, value in pairs(requests):
        requested, limit = quantity(value), quantity(limits.get(name))
        if not is_extended(name) or isinstance(limits.get(name), Unknown) or requested is None:
            continue
        if name not in limits:
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        elif limit is not None and requested != limit:
            yield invalid(
                f"{path}.requests", _text(value), f"must be equal to {name} limit of {_text(limits.get(name))}"
            )


def _text(value: Any) -> str:
    """Return a quantity as the API prints it: `1.5` becomes `1500m`."""
    amount = quantity(value)
    return str(value) if amount is None else format_quantity(amount, binary=str(value).endswith("i"))


def is_extended(name: str) -> bool:
    """Return True for a resource of a device plugin, such as nvidia.com/gpu (core/helper/helpers.go)."""
    is_native = "/" not in name or "kubernetes.io/" in name
    return not is_native and not name.startswith("requests.") and not any(label_key(f"requests.{name}"))


def _data(kind: str, given: Mapping[str, Any]) -> Iterator[Problem]:
    """Check the encoding and the size of a ConfigMap's or a Secret's data. No message contains a value."""
    plain, encoded = DATA_FIELDS[kind]
    size = sum(len(str(value).encode()) for _, value in pairs(given.get(plain)))
    for name, value in pairs(given.get(encoded)):
        try:
            size += len(base64.b64decode(str(value), validate=True))
        except binascii.Error:
            yield Problem(f"{encoded}.{name}", "error decoding from json: illegal base64 data")
    if size > DATA_MOST:
        # The error of a ConfigMap is about the whole object.
        yield Problem("data" if kind == "Secret" else "", f"Too long: may not be more than {DATA_MOST} bytes")
