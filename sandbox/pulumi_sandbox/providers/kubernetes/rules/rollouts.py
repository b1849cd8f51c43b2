"""Check the API server's rules for how a Deployment or a DaemonSet replaces its pods.

Source: k8s.io/kubernetes v1.36.0, pkg/apis/apps/validation/validation.go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_sandbox.providers.kubernetes.fields import forbidden, format_value, has_unknown, invalid, required
from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner
from pulumi_sandbox.providers.resource import Problem

# The default of spec.progressDeadlineSeconds (pkg/apis/apps/v1/defaults.go).
PROGRESS_DEADLINE_SEC = 600


def deployment(spec: Any) -> Iterator[Problem]:
    if not isinstance(spec, Mapping) or has_unknown(spec):
        return
    strategy = spec.get("strategy") or {}
    kind, rolling, path = strategy.get("type") or "RollingUpdate", strategy.get("rollingUpdate"), "spec.strategy"
    if kind == "Recreate":
        if rolling is not None:
            yield forbidden(f"{path}.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")
    elif kind != "RollingUpdate":
        yield _unsupported(path, strategy, ("Recreate", "RollingUpdate"))
    else:
        path = f"{path}.rollingUpdate"
        unavailable, surge = (inner(rolling, one) for one in ("maxUnavailable", "maxSurge"))
        yield from _amounts(path, {"maxUnavailable": unavailable, "maxSurge": surge})
        if _number(unavailable, 25) == 0 and _number(surge, 25) == 0:
            yield invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
        yield from _at_most_everything(f"{path}.maxUnavailable", unavailable)
    deadline = spec.get("progressDeadlineSeconds", PROGRESS_DEADLINE_SEC)
    if isinstance(deadline, int) and deadline < 0:
        yield invalid("spec.progressDeadlineSeconds", deadline, "must be greater than or equal to 0")
    if isinstance(deadline, int) and deadline <= (spec.get("minReadySeconds") or 0):
        yield invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def daemon_set(spec: Any) -> Iterator[Problem]:
    if not isinstance(spec, Mapping) or has_unknown(spec):
        return
    strategy = spec.get("updateStrategy") or {}
    kind, rolling, path = strategy.get("type") or "RollingUpdate", strategy.get("rollingUpdate"), "spec.updateStrategy"
    if kind not in ("RollingUpdate", "OnDelete"):
        yield _unsupported(path, strategy, ("RollingUpdate", "OnDelete"))
    elif kind == "RollingUpdate":
        path = f"{path}.rollingUpdate"
        unavailable, surge = (inner(rolling, one) for one in ("maxUnavailable", "maxSurge"))
        yield from _amounts(path, {"maxUnavailable": unavailable, "maxSurge": surge})
        yield from _at_most_everything(f"{path}.maxUnavailable", unavailable)
        yield from _at_most_everything(f"{path}.maxSurge", surge)
        if _number(unavailable, 1) and _number(surge, 0):
            yield invalid(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero")
        elif not _number(unavailable, 1) and not _number(surge, 0):
            yield required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")


def _unsupported(path: str, strategy: Mapping[str, Any], supported: tuple[str, ...]) -> Problem:
    """Return the problem of an unknown strategy. The API server prints it with the fields of its Go type."""
    rolling = strategy.get("rollingUpdate")
    fields = (
        {name: rolling.get(name[0].lower() + name[1:]) for name in ("MaxUnavailable", "MaxSurge")} if rolling else None
    )
    text = json.dumps({"Type": strategy.get("type"), "RollingUpdate": fields}, separators=(",", ":"))
    values = ", ".join(map(format_value, supported))
    return Problem(path, f"Unsupported value: {text}: supported values: {values}")


def _amounts(path: str, given: Mapping[str, Any]) -> Iterator[Problem]:
    """Check numbers and percentages (ValidatePositiveIntOrPercent)."""
    for name, value in given.items():
        if isinstance(value, str) and not re.fullmatch("[0-9]+%", value):
            message = "a valid percent string must be a numeric string followed by an ending '%'"
            examples = "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
            yield invalid(f"{path}.{name}", value, f"{message} {examples}")
        elif isinstance(value, int) and value < 0:
            yield invalid(f"{path}.{name}", value, "must be greater than or equal to 0")


def _number(given: Any, default: int) -> int:
    if given is None:
        return default
    if isinstance(given, int):
        return given
    return int(given[:-1]) if re.fullmatch("[0-9]+%", given) else 0


def _at_most_everything(path: str, given: Any) -> Iterator[Problem]:
    if isinstance(given, str) and _number(given, 0) > 100:
        yield invalid(path, given, "must not be greater than 100%")
