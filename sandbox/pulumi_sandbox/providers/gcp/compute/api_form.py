"""Convert Pulumi inputs to the body of a Google API request, with the table that also checks the inputs."""

from __future__ import annotations

from typing import Any

from pulumi_sandbox.providers.gcp import discovery
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


def _fill(
    token: str, inputs: dict[str, Any], names: tuple[str, ...], target: dict[str, Any], top: dict[str, Any]
) -> None:
    fields = TARGETS[token].fields
    for key, value in inputs.items():
        if key == "__defaults" or value is None or value is UNKNOWN:
            continue
        path = (*names, key)
        rename = fields.get(".".join(path)) or (key if discovery.field(token, path) else "")
        if path in (("metadata",), ("metadataStartupScript",)):
            pairs = value if isinstance(value, dict) else {"startup-script": value}
            items = target.setdefault("metadata", {}).setdefault("items", [])
            items.extend({"key": name, "value": text} for name, text in sorted(pairs.items()))
        elif rename and not rename.startswith("@"):  # other properties are not of the API
            parts = rename.lstrip("/").split(".")
            parent = top if rename.startswith("/") else target
            for part in parts[:-1]:
                parent = parent.setdefault(part, {})
            value_in_api = _value(token, value, path, top)
            parent[parts[-1]] = [value_in_api] if parts[-1] in WRAPPED else value_in_api


def _value(token: str, value: Any, names: tuple[str, ...], top: dict[str, Any]) -> Any:
    if isinstance(value, list | tuple):
        return [_value(token, item, names, top) for item in value]
    if isinstance(value, dict):
        if _is_map(names):
            return {key: inner for key, inner in value.items() if key != "__defaults"}
        fields: dict[str, Any] = {}
        _fill(token, value, names, fields, top)
        return fields
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_map(names: tuple[str, ...]) -> bool:
    return names[-1] in ("labels", "resourceManagerTags", "metadata")
