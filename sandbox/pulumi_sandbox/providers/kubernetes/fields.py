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

from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import Unknown, leaves

DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DNS_SUBDOMAIN = rf"{DNS_LABEL}(\.{DNS_LABEL})*"
LABEL_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
LABEL_VALUE = f"({LABEL_KEY})?"
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


def required(path: str, detail: str = "") -> Problem:
    return Problem(path, f"Required value: {detail}" if detail else "Required value")


def forbidden(path: str, detail: str) -> Problem:
    return Problem(path, f"Forbidden: {detail}")


def not_found(path: str, value: Any) -> Problem:
    return Problem(path, f"Not found: {format_value(value)}")


def duplicate(path: str, value: Any) -> Problem:
    return Problem(path, f"Duplicate value: {format_value(value)}")


def unsupported(path: str, value: Any, supported: Sequence[str]) -> Problem:
    return Problem(
        path, f"Unsupported value: {format_value(value)}: supported values: {', '.join(map(format_value, supported))}"
    )


def has_unknown(value: Any) -> bool:
    """Return True if a part of the value is unknown during a preview."""
    return any(isinstance(one, Unknown) for _, one in leaves(value))


def _pattern(message: str, pattern: str, *examples: str) -> str:
    """Return the message of a pattern that does not match (content/errors.go, RegexError)."""
    quoted = "".join(f"{' or ' if at else ''}'{one}', " for at, one in enumerate(examples))
    return f"{message} (e.g. {quoted}regex used for validation is '{pattern}')"


def too_long(most: int) -> str:
    return f"must be no more than {most} bytes"


def dns_label(value: str) -> Iterator[str]:
    if len(value.encode()) > LABEL_MOST:
        yield too_long(LABEL_MOST)
    if re.fullmatch(DNS_LABEL, value):
        return
    if re.fullmatch(DNS_SUBDOMAIN, value):
        yield "must not contain dots"
    else:
        yield _pattern(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and "
            "end with an alphanumeric character",
            DNS_LABEL,
            "my-name",
            "123-abc",
        )


def dns_subdomain(value: str) -> Iterator[str]:
    if len(value.encode()) > SUBDOMAIN_MOST:
        yield too_long(SUBDOMAIN_MOST)
    if not re.fullmatch(DNS_SUBDOMAIN, value):
        yield _pattern(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
            "start and end with an alphanumeric character",
            DNS_SUBDOMAIN,
            "example.com",
        )


def label_key(value: str) -> Iterator[str]:
    """Check a label key, or the name of a resource or annotation (content/kube.go, IsLabelKey)."""
    rule = _pattern(
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
        "character",
        LABEL_KEY,
        "MyName",
        "my.name",
        "123-abc",
    )
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        yield f"a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return
    if slash and not prefix:
        yield "prefix part must be non-empty"
    elif slash:
        yield from (f"prefix part {message}" for message in dns_subdomain(prefix))
    if not name:
        yield "name part must be non-empty"
    elif len(name) > LABEL_MOST:
        yield f"name part {too_long(LABEL_MOST)}"
    if not re.fullmatch(LABEL_KEY, name):
        yield f"name part {rule}"


def label_value(value: str) -> Iterator[str]:
    if len(value.encode()) > LABEL_MOST:
        yield too_long(LABEL_MOST)
    if not re.fullmatch(LABEL_VALUE, value):
        yield _pattern(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
            "start and end with an alphanumeric character",
            LABEL_VALUE,
            "MyValue",
            "my_value",
            "12345",
        )


def label_values(path: str, key: Any, values: Sequence[Any]) -> Iterator[Problem]:
    """Check the key and the values of one label requirement."""
    if isinstance(key, str):
        yield from (invalid(f"{path}.key", key, message) for message in label_key(key))
    for place, value in enumerate(values):
        if isinstance(value, str):
            yield from (invalid(f"{path}.values[{place}]", value, message) for message in label_value(value))


def data_key(value: str) -> Iterator[str]:
    """Check a key of a ConfigMap or a Secret (pkg/util/validation, IsConfigMapKey)."""
    if len(value) > SUBDOMAIN_MOST:
        yield f"must be no more than {SUBDOMAIN_MOST} characters"
    if not re.fullmatch("[-._a-zA-Z0-9]+", value):
        yield _pattern(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            "key.name",
            "KEY_NAME",
            "key-name",
        )
    elif value in (".", ".."):
        yield f"must not be '{value}'"
    elif value.startswith(".."):
        yield "must not start with '..'"


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


def canonical(value: Any) -> str:
    """Return a quantity as the API prints it, in the largest unit with a whole number: `1.5` becomes `1500m`."""
    amount, suffix = quantity(value), str(value).lstrip("+-.0123456789")
    if amount is None:
        return str(value)
    if suffix[:1] in ("e", "E") and suffix[1:]:
        power = next(power for power in range(18, -10, -3) if (amount / Fraction(10) ** power).denominator == 1)
        return f"{amount / Fraction(10) ** power}{f'e{power}' if power else ''}"
    return format_quantity(amount, binary=suffix.endswith("i"))


def format_quantity(amount: Fraction, *, binary: bool) -> str:
    """Print an amount (pkg/api/resource/quantity.go, CanonicalizeBytes).

    Amounts below 1024 and fractions have no binary form.
    """
    binary = binary and abs(amount) >= 1024 and amount.denominator == 1
    units = {name: unit for name, unit in SUFFIXES.items() if not name or name.endswith("i") == binary}
    name, unit = max((one for one in units.items() if (amount / one[1]).denominator == 1), key=lambda one: one[1])
    return f"{amount / unit}{name if amount else ''}"
