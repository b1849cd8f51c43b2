"""One example of each component as a program in Python. The pages of pools show entries of a stack file instead."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from gpu_ci import versions
from gpu_ci.kinds import ComponentInfo


class Code(str):
    """An expression of the program."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


APP = {
    "id": Code('pulumi.Output.secret("1234567")'),
    "installationId": Code('pulumi.Output.secret("7654321")'),
    "privateKey": Code('pulumi.Config().require_secret("appKey")'),
}
TEMPLATE = "projects/acme-ci/regions/us-central1/instanceTemplates/l4-template-1"
# Arguments for the required fields that the example of a component does not have.
REQUIRED_ARGUMENTS: dict[str, Any] = {
    "app": APP,
    "clusterName": "ci",
    "configuration": '{"name": "prod"}',
    "controller": {"serviceAccountName": "arc", "namespace": "arc-systems", "version": versions.ARC_CHARTS},
    "controlPlaneVersion": "1.34.1-gke.3720000",
    "endpoint": "projects/acme-ci/locations/us-central1/endpoints/1234567890",
    "kubernetesVersion": "1.35",
    "location": "us-central1",
    "mailboxBucket": "mailbox-us-east-1-bucket-1a2b3c4",
    "mailboxRegion": "us-east-1",
    "manager": "prod",
    "machineAccounts": {"l4": "gpu-l4@acme-ci.iam.gserviceaccount.com"},
    "maxSize": 4,
    "namespace": "gpu-ci",
    "nodeGroupName": "gpu",
    "owner": "acme",
    "pool": "l4",
    "project": "acme-ci",
    "serviceAccountEmail": "gpu-l4@acme-ci.iam.gserviceaccount.com",
    "subnets": {"us-east-1a": "subnet-0123456789abcdef0", "us-east-1b": "subnet-0123456789abcdef1"},
    "subnetwork": "projects/acme-ci/regions/us-central1/subnetworks/ci",
    "template": TEMPLATE,
    "templates": [TEMPLATE],
    "webhookSecret": Code('pulumi.Config().require_secret("webhookSecret")'),
    "zones": ["us-central1-a", "us-central1-b"],
}
REGIONS = {"aws": "us-east-1", "gcp": "us-central1"}
APP_KEYS = {
    "aws": "arn:aws:secretsmanager:us-east-1:123456789012:secret:github-manager-app-key",
    "gcp": "projects/acme-ci/secrets/manager-key",
}


def import_of(component: ComponentInfo) -> str:
    """Return the module that programs import. That of a kind of pool is in the folder of its cloud."""
    module = f"gpu_ci.{component.cloud}.{re.sub('(?<!^)(?=[A-Z])', '_', component.name).lower()}"
    has_folder = component.kind and importlib.util.find_spec(f"gpu_ci.{component.cloud}")
    return module if has_folder and importlib.util.find_spec(module) else component.module


def arguments(component: ComponentInfo, resource: dict[str, Any]) -> dict[str, Any]:
    """Return the component's own example, with the required fields that the example does not have."""
    known = {**REQUIRED_ARGUMENTS, "region": REGIONS.get(component.cloud), "appKey": APP_KEYS.get(component.cloud)}
    example: dict[str, Any] = getattr(component.load(), "EXAMPLE", {})
    return {**{name: known[name] for name in resource.get("requiredInputs", []) if name not in example}, **example}


def python(component: ComponentInfo, values: dict[str, Any]) -> str:
    """Return the program."""
    names = {field.alias or name: name for name, field in component.load().ARGS.model_fields.items()}
    arguments = ",".join(f"{names[name]}={value!r}" for name, value in values.items())
    lines = [
        "import pulumi\n" if "pulumi." in arguments else "",
        f"from {import_of(component)} import {component.name}, {component.name}Args\n\n",
        f'{component.name}("ci", {component.name}Args({arguments},),)',
    ]
    command = [str(Path(sys.executable).with_name("ruff")), "format", "--line-length=120", "-"]
    done = subprocess.run(command, input="".join(lines), capture_output=True, text=True, check=True)
    return done.stdout.rstrip()
