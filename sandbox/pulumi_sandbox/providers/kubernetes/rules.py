"""Check the API server's rules that no schema contains, for objects that the components create.

Each rule guards against a mistake that a user's choice can cause: a long name, a text that is no label, too much data.
The objects of the components themselves are applied to a real API server (tests/control_plane).
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
    invalid,
    labels,
    too_long,
)
from pulumi_sandbox.providers.kubernetes.objects import inner, pairs
from pulumi_sandbox.providers.resource import Problem

# The maximum size of all values of a ConfigMap or a Secret in bytes (core/types.go, MaxSecretSize).
DATA_MOST = 1024 * 1024
DATA_FIELDS = {"ConfigMap": ("data", "binaryData"), "Secret": ("stringData", "data")}


def check(group: str, kind: str, given: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems of an object that its schema accepts."""
    yield from _metadata(group, kind, given.get("metadata"))
    match group, kind:
        case ("batch", "Job") | ("apps", "DaemonSet"):
            template = inner(given, "spec", "template")
            # The API omits `metadata` from this path.
            yield from labels("spec.template.labels", inner(template, "metadata", "labels"))
            yield from labels("spec.template.spec.nodeSelector", inner(template, "spec", "nodeSelector"))
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
