"""Convert Pulumi inputs to the body of a Google API request, with the table that also checks the inputs."""

from __future__ import annotations

from typing import Any

from pulumi_sandbox.providers.gcp.types import TARGETS
from pulumi_sandbox.providers.values import UNKNOWN

# Fields that are single objects in Pulumi and lists in the API.
WRAPPED = ("serviceAccounts", "autoHealingPolicies")


def api_form(token: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the body of the API's insert request."""
    target = TARGETS[token]
    body: dict[str, Any] = {}
    base = body
    for part in target.base:
        base = base.setdefault(part, {})
    _fill(token, inputs, (), base, body)
    return body


def _fill(token: str, given: dict[str, Any], names: tuple[str, ...], into: dict[str, Any], top: dict[str, Any]) -> None:
    fields = TARGETS[token].fields
    for key, value in given.items():
        if key == "__defaults" or value is None or value is UNKNOWN:
            continue
        path = (*names, key)
        rename = fields.get(".".join(path), key)
        if path in (("metadata",), ("metadataStartupScript",)):
            pairs = value if isinstance(value, dict) else {"startup-script": value}
            items = into.setdefault("metadata", {}).setdefault("items", [])
            items.extend({"key": name, "value": text} for name, text in sorted(pairs.items()))
        elif rename and not rename.startswith("@"):
            parts = rename.lstrip("/").split(".")
            at = top if rename.startswith("/") else into
            for part in parts[:-1]:
                at = at.setdefault(part, {})
            made = _value(token, value, path, top)
            at[parts[-1]] = [made] if parts[-1] in WRAPPED else made


def _value(token: str, value: Any, names: tuple[str, ...], top: dict[str, Any]) -> Any:
    if isinstance(value, list | tuple):
        return [_value(token, one, names, top) for one in value]
    if isinstance(value, dict):
        if _is_map(names):
            return {key: inner for key, inner in value.items() if key != "__defaults"}
        made: dict[str, Any] = {}
        _fill(token, value, names, made, top)
        return made
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_map(names: tuple[str, ...]) -> bool:
    return names[-1] in ("labels", "resourceManagerTags", "metadata")
