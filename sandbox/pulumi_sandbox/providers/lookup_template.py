"""Replace the placeholders in answers of lookups, such as `${args.region}`, by arguments and configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pulumi_sandbox.providers.resource import Refused

REFERENCE = re.compile(r"\$\{([^}]+)\}")
STEP = re.compile(r"\.?([\w-]+)|\[([^\[\]]+)\]")
INDEX = re.compile(r"-?\d+\Z")


class LookupRefusedError(Refused):
    """A function call without an answer. The text names the function and has a hint."""


def fill(template: Any, scope: Mapping[str, Any], subject: str) -> Any:
    """Replace the placeholders of a result.

    Examples: `${args.region}`, `${values.zones[args.region]}`, `${args.name|values.name}`. An index into a string
    selects a part between slashes: `${args.selfLink[-1]}` is the last part.
    """
    if isinstance(template, Mapping):
        return {name: fill(value, scope, subject) for name, value in template.items()}
    if isinstance(template, list):
        return [fill(value, scope, subject) for value in template]
    if not isinstance(template, str):
        return template
    whole = REFERENCE.fullmatch(template)
    if whole:
        return _resolve(whole.group(1), scope, subject)
    return REFERENCE.sub(lambda found: str(_resolve(found.group(1), scope, subject)), template)


def _resolve(expression: str, scope: Mapping[str, Any], subject: str) -> Any:
    for alternative in expression.split("|"):
        value = _follow(alternative.strip(), scope)
        if value is not None:
            return fill(value, scope, subject)
    raise LookupRefusedError(
        f"{subject}: no value for ${{{expression}}}\n"
        f"  hint: pass the value to the function, set it in the provider's configuration, or add it to sandbox.yaml"
    )


def _follow(path: str, scope: Any) -> Any:
    value = scope
    for name, index in STEP.findall(path):
        key: Any = name or (index if INDEX.match(index) else _follow(index, scope))
        if isinstance(value, str | list) and INDEX.match(str(key)):
            parts = value.split("/") if isinstance(value, str) else value
            value = parts[int(key)] if -len(parts) <= int(key) < len(parts) else None
        else:
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is None:
            return None
    return value


def merge(under: Any, over: Any) -> Any:
    if isinstance(under, Mapping) and isinstance(over, Mapping):
        return {**under, **{name: merge(under.get(name), value) for name, value in over.items()}}
    return over
