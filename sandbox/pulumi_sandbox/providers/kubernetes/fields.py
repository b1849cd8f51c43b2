"""Check single fields as an API server does, with its error messages: names, labels and quantities.

The forms of errors come from k8s.io/apimachinery v0.36.0, pkg/util/validation/field/errors.go (ErrorBody). The messages
about names and labels come from its pkg/api/validate/content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from pulumi_sandbox.providers.kubernetes.objects import pairs
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
