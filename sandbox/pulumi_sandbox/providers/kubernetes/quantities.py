"""Parse the quantities of Kubernetes, such as 500m and 2Gi."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from pulumi_sandbox.providers.kubernetes.objects import pairs

# k8s.io/apimachinery v0.36.0, pkg/api/resource: quantity.go (splitREString), suffix.go.
QUANTITY = r"([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)"
QUANTITY_WRONG = f"quantities must match the regular expression '^{QUANTITY}$'"
SUFFIXES: dict[str, Fraction] = {
    "": Fraction(1),
    **{suffix: Fraction(1, 1000**power) for power, suffix in enumerate(("m", "u", "n"), 1)},
    **{suffix: Fraction(1000**power) for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate(("K", "M", "G", "T", "P", "E"), 1)},
}


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
