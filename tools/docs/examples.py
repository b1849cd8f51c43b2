"""One example of each component as a program in Python."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpu_ci import versions
from gpu_ci.kinds import ComponentInfo


@dataclass(frozen=True)
class Secret:
    """A secret that a program reads from its configuration."""

    key: str


@dataclass(frozen=True)
class SecretText:
    """A text that the program passes to a component as a secret output."""

    text: str


# The two ids are not read from the configuration, because pulumi-yaml 1.25 reads a text of digits as a number there.
APP = {"id": SecretText("1234567"), "installationId": SecretText("7654321"), "privateKey": Secret("appKey")}
CONTROLLER = {"serviceAccountName": "arc", "namespace": "arc-systems", "version": versions.ARC_CHARTS}
SUBNETS = {"us-east-1a": "subnet-0123456789abcdef0", "us-east-1b": "subnet-0123456789abcdef1"}
TEMPLATE = "projects/acme-ci/regions/us-central1/instanceTemplates/l4-template-1"
# Arguments for the required fields that the example of a component does not have.
REQUIRED_ARGUMENTS: dict[str, Any] = {
    "app": APP,
    "appKey": "projects/acme-ci/secrets/manager-key",
    "autoscalingGroupName": "eks-gpu-1",
    "clusterName": "ci",
    "configuration": '{"name": "prod"}',
    "controlPlaneVersion": "1.34.1-gke.3720000",
    "controller": CONTROLLER,
    "githubConfigUrl": "https://github.com/acme",
    "kubernetesVersion": "1.35",
    "location": "us-central1",
    "machineAccounts": {"l4": "gpu-l4@acme-ci.iam.gserviceaccount.com"},
    "maxSize": 4,
    "namespace": "gpu-ci",
    "nodeGroupName": "gpu",
    "pool": "l4",
    "project": "acme-ci",
    "serviceAccountEmail": "gpu-l4@acme-ci.iam.gserviceaccount.com",
    "subnetId": "subnet-0123456789abcdef0",
    "subnets": SUBNETS,
    "subnetwork": "projects/acme-ci/regions/us-central1/subnetworks/ci",
    "template": TEMPLATE,
    "templates": [TEMPLATE],
    "vpcId": "vpc-0123456789abcdef0",
}
# Fields that only the component requires, and not its schema. Runners of an organization need a runner group.
ALSO_REQUIRED = {
    "gpu-ci:aws:EksRunnerPool": {"runnerGroup": "gpu"},
    "gpu-ci:gcp:GkeRunnerPool": {"runnerGroup": "gpu"},
}
REGIONS = {"aws": "us-east-1", "gcp": "us-central1"}


def arguments(component: ComponentInfo, resource: dict[str, Any]) -> dict[str, Any]:
    """Return the component's own example, with the required fields that the example does not have."""
    cloud = component.token.split(":")[1]
    known = {**REQUIRED_ARGUMENTS, "region": REGIONS.get(cloud), "zones": ["us-central1-a", "us-central1-b"]}
    example: dict[str, Any] = getattr(component.load(), "EXAMPLE", {})
    needed = [name for name in resource.get("requiredInputs", []) if name not in example]
    return {**{name: known[name] for name in needed}, **ALSO_REQUIRED.get(component.token, {}), **example}


def name_of(component: ComponentInfo) -> str:
    return (
        {"cloud-build": "builds", "cloud-build-gpu": "gpu-tests"}.get(component.kind, "l4") if component.kind else "ci"
    )


def python(component: ComponentInfo, values: dict[str, Any]) -> str:
    names = {field.alias or name: name for name, field in component.load().ARGS.model_fields.items()}
    lines = [
        *(["import pulumi"] if secrets_in(values) else []),
        f"from {component.module} import {component.name}, {component.name}Args",
        "",
        f"{component.name}(",
        f'    "{name_of(component)}",',
        f"    {component.name}Args(",
        *(f"        {names[name]}={literal(value, '        ')}," for name, value in values.items()),
        "    ),",
        ")",
    ]
    return "\n".join(lines)


def secrets_in(value: Any) -> list[Secret]:
    if isinstance(value, Secret):
        return [value]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [found for each in inside for found in secrets_in(each)]


def literal(value: Any, indent: str) -> str:
    """Return a value as source code: on one line if it fits, else one entry a line."""
    if not isinstance(value, (dict, list)):
        return _atom(value)
    opening, closing = "{}" if isinstance(value, dict) else "[]"

    def entries(inner: str) -> Iterator[str]:
        if isinstance(value, dict):
            yield from (f"{json.dumps(name)}: {literal(each, inner)}" for name, each in value.items())
        else:
            yield from (literal(each, inner) for each in value)

    line = f"{opening}{', '.join(entries(indent))}{closing}"
    if "\n" not in line and len(line) + len(indent) <= 80:
        return line
    step = f"{indent}    "
    return "\n".join([opening, *(f"{step}{entry}," for entry in entries(step)), indent + closing])


def _atom(value: Any) -> str:
    if isinstance(value, Secret):
        return f'pulumi.Config().require_secret("{value.key}")'
    if isinstance(value, SecretText):
        return f'pulumi.Output.secret("{value.text}")'
    return json.dumps(value) if isinstance(value, str) and '"' not in value else repr(value)
