"""Reads runner scale sets from Helm releases in a state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from gpu_ci.cli.migrate.terraform import Resource

CHART = "gha-runner-scale-set"
_UNREADABLE = "its values are sensitive in the state, or not YAML"


@dataclass(frozen=True)
class ScaleSet:
    """The settings of one release of the chart gha-runner-scale-set that a pool can take over."""

    address: str
    name: str
    namespace: str
    organization: str
    repository: str
    """The repository, if the runners serve one repository only."""
    group: str
    max: int | None
    min: int
    image: str
    gpus: int
    container_mode: str
    selector: Mapping[str, str] = field(default_factory=dict)
    unread: str = ""
    """Why some values could not be read, or an empty text."""


def of(resource: Resource) -> ScaleSet | None:
    """Return the scale set of a Helm release, or None for another chart."""
    if resource.type != "helm_release" or chart_of(resource) != CHART:
        return None
    values, unread = _values(resource)
    owner, _, repository = _path(values.get("githubConfigUrl")).partition("/")
    pod = _map(values, "template", "spec")
    containers = [each for each in pod.get("containers") or () if isinstance(each, Mapping)]
    runner: Mapping[str, Any] = next((each for each in containers if each.get("name") == "runner"), {})
    gpus = _map(runner, "resources", "limits").get("nvidia.com/gpu", 0)
    return ScaleSet(
        address=resource.address,
        name=str(values.get("runnerScaleSetName") or resource.text("name")),
        namespace=resource.text("namespace"),
        organization=owner,
        repository=repository,
        group=str(values.get("runnerGroup") or ""),
        max=number(values.get("maxRunners")),
        min=number(values.get("minRunners")) or 0,
        image=str(runner.get("image") or ""),
        gpus=number(gpus) or 0,
        container_mode=str(_map(values, "containerMode").get("type") or ""),
        selector={str(key): str(value) for key, value in _map(pod, "nodeSelector").items()},
        unread=unread,
    )


def chart_of(resource: Resource) -> str:
    """Return the name of a Helm release's chart, without the address of its registry."""
    return resource.text("chart").rstrip("/").rpartition("/")[2]


def number(value: Any) -> int | None:
    """Return a whole number that may be written as text, or None."""
    try:
        return None if isinstance(value, bool) else int(value)
    except (TypeError, ValueError):
        return None


def _values(resource: Resource) -> tuple[dict[str, Any], str]:
    """Return the values of the release, merged in Helm's order: the documents, then `set`."""
    merged: dict[str, Any] = {}
    unread = ""
    # A sensitive value is missing. Terraform writes an unset one as null.
    for text in resource.values.get("values", [None]) or ():
        try:
            document = yaml.safe_load(text) if isinstance(text, str) else None
        except yaml.YAMLError:
            document = None
        if isinstance(document, Mapping):
            _merge(merged, document)
        elif text != "":
            unread = _UNREADABLE
    for each in resource.values.get("set") or ():
        if isinstance(each, Mapping) and isinstance(each.get("name"), str):
            nested: Any = each.get("value")
            for step in reversed(each["name"].split(".")):
                nested = {step: nested}
            _merge(merged, nested)
    return merged, unread


def _merge(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = dict(value) if isinstance(value, Mapping) else value


def _map(value: Any, *names: str) -> Mapping[str, Any]:
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _path(url: Any) -> str:
    """Return the path of an address such as https://github.com/acme/kernels, or an empty text."""
    if not isinstance(url, str):
        return ""
    path = url.partition("://")[2].partition("/")[2].strip("/")
    return "" if path.startswith("enterprises/") else path
