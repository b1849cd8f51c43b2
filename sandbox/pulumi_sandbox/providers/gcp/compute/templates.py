"""Instance templates in the form of the Compute Engine API."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pulumi_sandbox.providers import paths
from pulumi_sandbox.providers.gcp import discovery, errors
from pulumi_sandbox.providers.gcp.compute.requests import Json, Request
from pulumi_sandbox.providers.gcp.names import absolute, last, part, region_of, self_link
from pulumi_sandbox.providers.gcp.types import ACCOUNT, REGION_TEMPLATE, TARGETS, TEMPLATE
from pulumi_sandbox.providers.secret_digests import digest_paths, redact, with_known_texts
from pulumi_sandbox.providers.values import UNKNOWN
from pulumi_sandbox.world.store import Record, World

# The template fields that the sandbox uses to boot a machine; it only returns the others.
BOOT_FIELDS = frozenset(
    {"guestAccelerators", "machineType", "metadata", "metadataStartupScript", "scheduling", "serviceAccount"}
)
CANNOT_BOOT = (
    "the sandbox stores secrets as digests, so it cannot boot a machine from a template with secret inputs\n"
    "  got: {} as secret\n  hint: a real cloud can boot the machine (docs/how-it-works/sandbox.md)"
)


@dataclass(frozen=True)
class Templates:
    """The methods of the API for templates, which stacks create."""

    world: World

    def get(self, request: Request, region: str, name: str) -> Json:
        record = self._record(f"projects/{request.project}/regions/{region}/instanceTemplates/{name}")
        return _json(record, self._inputs(record))

    def properties(self, project: str, zone: str, source: str) -> Json:
        """Return the properties of the template from which a machine boots."""
        path = absolute(source, project)
        region = part(path, "regions")
        if region and region != region_of(zone):
            raise errors.invalid(
                "sourceInstanceTemplate", source, f"The template is in region {region}, the instance in zone {zone}."
            )
        record = self._record(path)
        inputs = self._inputs(record)
        if secret := [paths.text(one) for one in digest_paths(inputs) if one[0] in BOOT_FIELDS]:
            raise errors.GoogleError(400, "sandbox", CANNOT_BOOT.format(", ".join(secret)))
        found: Json = _json(record, inputs)["properties"]
        return found

    def _record(self, path: str) -> Record:
        record = self.world.get(REGION_TEMPLATE if "/regions/" in path else TEMPLATE, path)
        if record is None:
            raise errors.not_found(path)
        return record

    def _inputs(self, record: Record) -> Json:
        """Return the stored inputs of a template, with the addresses of known service accounts in plain text.

        An account's address is secret if its project is, but the account's id contains the same address.
        """

        def account_emails() -> Iterator[str]:  # read only if an input is secret, because a stack may have hundreds
            yield from (last(account.id) for account in self.world.find(ACCOUNT))

        return with_known_texts(record.inputs, account_emails(), self.world.key)


def _json(record: Record, inputs: Json) -> Json:
    name, link = last(record.id), self_link(record.id)
    return api_form(record.type, {**redact(inputs), "name": name}) | {"selfLink": link}


# -- the body of a request from inputs --------------------------------------------------------------------------------

# Fields that are single objects in Pulumi and lists in the API.
WRAPPED = ("serviceAccounts", "autoHealingPolicies")


def api_form(token: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the body of the API's insert request."""
    target = TARGETS[token]
    body: dict[str, Any] = {}
    base = body
    for name in target.base:
        base = base.setdefault(name, {})
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
        elif rename:  # other properties are not of the API
            parts = rename.lstrip("/").split(".")
            parent = top if rename.startswith("/") else target
            for name in parts[:-1]:
                parent = parent.setdefault(name, {})
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
