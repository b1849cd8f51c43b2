"""Check the API server's rules that no schema contains, for objects that the components create.

Each rule guards against a mistake that a user's choice can cause: a long name, a text that is no label, too much data.
The objects of the components themselves are applied to a real API server (tests/control_plane).
Sources: k8s.io/kubernetes v1.36.0, pkg/apis/{core,batch}/validation/validation.go; for the messages,
k8s.io/apimachinery v0.36.0, pkg/util/validation/field/errors.go (ErrorBody) and pkg/api/validate/content.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from pulumi_sandbox.providers.kubernetes.objects import inner, pairs
from pulumi_sandbox.providers.resource import Problem

DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DNS_SUBDOMAIN = rf"{DNS_LABEL}(\.{DNS_LABEL})*"
LABEL_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
ENDS = "and must start and end with an alphanumeric character"
LABEL_MOST, SUBDOMAIN_MOST = 63, 253

# k8s.io/apimachinery v0.36.0, pkg/api/resource: quantity.go (splitREString), suffix.go.
QUANTITY = r"([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)"
QUANTITY_WRONG = f"quantities must match the regular expression '^{QUANTITY}$'"
SUFFIXES: dict[str, Fraction] = {
    "": Fraction(1),
    **{suffix: Fraction(1, 1000**power) for power, suffix in enumerate(("m", "u", "n"), 1)},
    **{suffix: Fraction(1000**power) for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate(("K", "M", "G", "T", "P", "E"), 1)},
}


def format_value(value: Any) -> str:
    """Return a value as Go's errors show it: strings in quotes, objects as JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=str)


def invalid(path: str, value: Any, detail: str) -> Problem:
    return Problem(path, f"Invalid value: {format_value(value)}: {detail}")


def unsupported(path: str, value: Any, supported: Sequence[str]) -> Problem:
    return Problem(
        path, f"Unsupported value: {format_value(value)}: supported values: {', '.join(map(format_value, supported))}"
    )


def too_long(most: int) -> str:
    return f"must be no more than {most} bytes"


def dns_label(value: str) -> Iterator[str]:
    if len(value.encode()) > LABEL_MOST:
        yield too_long(LABEL_MOST)
    if not re.fullmatch(DNS_LABEL, value):
        yield f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {ENDS}"


def dns_subdomain(value: str) -> Iterator[str]:
    if len(value.encode()) > SUBDOMAIN_MOST:
        yield too_long(SUBDOMAIN_MOST)
    if not re.fullmatch(DNS_SUBDOMAIN, value):
        yield f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {ENDS}"


def label_key(value: str) -> Iterator[str]:
    """Check a label key (content/kube.go, IsLabelKey)."""
    prefix, slash, name = value.rpartition("/")
    if slash and not re.fullmatch(DNS_SUBDOMAIN, prefix):
        yield "prefix part must be a lowercase RFC 1123 subdomain"
    if len(name) > LABEL_MOST:
        yield f"name part {too_long(LABEL_MOST)}"
    if not re.fullmatch(LABEL_KEY, name):
        yield f"name part must consist of alphanumeric characters, '-', '_' or '.', {ENDS}"


def label_value(value: str) -> Iterator[str]:
    if len(value.encode()) > LABEL_MOST:
        yield too_long(LABEL_MOST)
    if value and not re.fullmatch(LABEL_KEY, value):
        yield f"a valid label must be empty or consist of alphanumeric characters, '-', '_' or '.', {ENDS}"


def labels(path: str, given: Any) -> Iterator[Problem]:
    """Check labels (apimachinery, apis/meta/v1/validation, ValidateLabels). Problems have the path of the map."""
    for name, value in pairs(given):
        yield from (invalid(path, name, message) for message in label_key(name))
        if isinstance(value, str):
            yield from (invalid(path, value, message) for message in label_value(value))


def quantity(value: Any) -> Fraction | None:
    """Parse a quantity such as `500m`, `2Gi`, `1e3` or a plain number; return None for an invalid one."""
    match = re.fullmatch(QUANTITY, str(value)) if not isinstance(value, bool) else None
    if match is None:
        return None
    number, suffix = match.groups()
    try:
        if suffix[:1] in ("e", "E") and suffix[1:]:
            return Fraction(f"{number}e{int(suffix[1:])}")
        return Fraction(number) * SUFFIXES[suffix]
    except (KeyError, ValueError):
        return None


def amounts(given: Any) -> dict[str, Fraction]:
    """Return the known and valid quantities of a map."""
    return {name: amount for name, value in pairs(given) if (amount := quantity(value)) is not None}


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
